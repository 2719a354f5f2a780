// Lists in pages: connections, subscriptions, users.

import { ask as request, path } from "./api.js";
import { ask, confirmByName } from "./dialogs.js";
import { button, enable, field, h, say, table, trying } from "./dom.js";
import { bytes, count, duration, moment } from "./format.js";

const PAGE = 100;

/** Close a connection, with a word to the other side. */
export function closeConnection({ id, client_id: named, client = named, peer }, done = () => {}) {
  const reason = h("input", { maxlength: 255, autocomplete: "off" });
  ask({
    title: `Close connection ${id}`, verb: "Close it", danger: true,
    body: [h("p", {}, `${client || "A client without a name"}, from ${peer ?? "nowhere known"}. What it has not acknowledged goes back to its queue. It may connect again.`),
      field("What it is told", reason)],
    act: async () => {
      await request("DELETE", path("connections", String(id)), reason.value ? { reason: reason.value } : {});
      say(`Connection ${id} is closed.`);
      done();
    },
  });
}

/** A list of which the broker gives a page at a time. */
class Listed {
  /** Where pages begin: the one that is shown is the last. */
  #begins = [null];
  #following = null;
  #turn = 0;

  constructor(title, what, columns, empty) {
    this.title = title;
    this.what = what;
    this.asked = { limit: 1 };
    this.body = h("tbody");
    this.empty = h("p", { class: "empty", hidden: true }, empty);
    this.where = h("span", { role: "status" });
    this.before = button("Previous", () => this.load(this.#begins.slice(0, -1)));
    this.next = button("Next", () => this.load([...this.#begins, this.#following]));
    this.element = h("section", { "aria-labelledby": "title" },
      h("div", { class: "bar" }, h("h1", { id: "title", tabindex: "-1" }, title), button("Refresh", () => this.load())),
      table(title, columns, this.body), this.empty, h("div", { class: "pages" }, this.before, this.next, this.where));
    this.load();
  }

  load(begins = this.#begins) {
    this.#turn += 1;
    const turn = this.#turn;
    return trying(async () => {
      const after = begins.at(-1);
      const page = await request("GET", path(this.what), undefined, { limit: PAGE, ...(after === null ? {} : { after }) });
      // Another was asked for meanwhile, which is the one that is wanted.
      if (turn !== this.#turn) return undefined;
      // What was on the last page may be gone meanwhile.
      if (!page.rows.length && begins.length > 1) return this.load(begins.slice(0, -1));
      this.#begins = begins;
      this.#following = page.next;
      this.#fill(page.rows);
      enable([this.before, this.#begins.length > 1], [this.next, page.next !== null]);
      this.empty.hidden = page.rows.length > 0;
      this.where.textContent = `Page ${this.#begins.length}, ${count(page.rows.length)} rows`;
      return undefined;
    });
  }

  /** Whoever is in a row by keyboard stays at what they were at. */
  #fill(rows) {
    const at = this.body.contains(document.activeElement) ? nameOf(document.activeElement) : null;
    this.body.replaceChildren(...rows.map((row) => this.row(row)));
    if (at === null) return;
    const there = [...this.body.querySelectorAll("button, a")].find((each) => nameOf(each) === at);
    (there ?? this.body.querySelector("button, a") ?? this.next)?.focus();
  }

  picture() {}
  tick() {}
  close() {}
}

const nameOf = (element) => element.getAttribute("aria-label") ?? element.textContent;

export class Connections extends Listed {
  #seen = null;
  #later = null;

  constructor() {
    super("Connections", "connections", [["No.", "number"], ["Role", ""], ["Client", ""], ["User", ""], ["From", ""], ["Queue", ""], ["Demand", "number"],
      ["Holds", "number"], ["In", "number"], ["Out", "number"], ["For", "number"], ["", "end"]], "Nobody is connected.");
  }

  /** Come and go is seen in the totals: the page is asked for again then, once a second at most. */
  picture(picture) {
    if (this.#seen !== null && this.#seen !== picture.totals.connections && !this.#later)
      this.#later = setTimeout(() => { this.#later = null; this.load(); }, 1000);
    this.#seen = picture.totals.connections;
  }

  row(row) {
    return h("tr", {}, h("td", { class: "number" }, count(row.id)), h("td", {}, row.role ?? ""), h("th", { scope: "row" }, row.client_id || "no name"),
      h("td", {}, row.user ?? ""), h("td", { class: "muted" }, row.peer ?? ""),
      h("td", {}, row.queue ? h("a", { href: `#/queues/${encodeURIComponent(row.queue)}` }, row.queue) : row.consumers ? `${count(row.consumers)} consumers` : ""),
      h("td", { class: "number" }, count(row.demand)), h("td", { class: "number" }, count(row.in_flight)), h("td", { class: "number" }, bytes(row.bytes_in)),
      h("td", { class: "number" }, bytes(row.bytes_out)), h("td", { class: "number" }, duration(row.connected_s)),
      h("td", { class: "end" }, button("Close", () => closeConnection(row, () => this.load()), { class: "small danger", "aria-label": `Close connection ${row.id}` })));
  }

  close() {
    clearTimeout(this.#later);
  }
}

export class Subscriptions extends Listed {
  constructor() {
    super("Subscriptions", "subscriptions", [["Queue", ""], ["Subscription", ""], ["Owner", ""], ["Backlog", "number"], ["Opened", ""], ["", "end"]],
      "There are no subscriptions: a Spark query makes one when it starts.");
  }

  row(row) {
    return h("tr", {}, h("td", {}, h("a", { href: `#/queues/${encodeURIComponent(row.queue)}` }, row.queue)), h("th", { scope: "row" }, row.name),
      h("td", {}, row.owner || "nobody", " ", h("span", { class: "pill", "data-kind": row.owned ? "flowing" : "idle" }, row.owned ? "connected" : "away")),
      h("td", { class: "number" }, count(row.backlog)), h("td", { class: "muted" }, row.opened_us ? moment(row.opened_us) : ""),
      h("td", { class: "end" }, button("Release", () => this.#release(row), { class: "small", "aria-label": `Release ${row.name}` }), " ",
        button("Delete", () => this.#delete(row), { class: "small danger", "aria-label": `Delete ${row.name}` })));
  }

  #release({ queue, name, owned }) {
    const force = h("input", { type: "checkbox" });
    confirmByName({
      title: `Release ${name}`, verb: "Release", name, what: "name of the subscription",
      text: "What the subscription has reserved can be received again.",
      more: owned ? [field("Although its owner is connected", force, "The owner then gets these messages twice.")] : [],
      act: async () => {
        const done = await request("POST", path("subscriptions", queue, name, "release"), { force: force.checked });
        say(`${count(done.released)} messages can be received again.`);
        this.load();
      },
    });
  }

  #delete({ queue, name }) {
    confirmByName({
      title: `Delete ${name}`, verb: "Delete", name, what: "name of the subscription",
      text: "The subscription is forgotten, and what it has reserved can be received again.",
      act: async () => {
        await request("DELETE", path("subscriptions", queue, name));
        say(`Subscription ${name} is deleted.`);
        this.load();
      },
    });
  }
}

export class Users extends Listed {
  constructor() {
    super("Users", "users", [["User", ""], ["Of the broker", ""], ["Of queues", ""], ["Comes in with", ""]],
      "This broker has no users: whoever reaches it may do everything.");
    this.element.append(h("p", { class: "muted" }, "Users are changed on the broker’s machine, by ", h("code", {}, "penstock user"), "."));
  }

  row(row) {
    const several = (number, one, many) => (number ? [`${count(number)} ${number === 1 ? one : many}`] : []);
    const proofs = [...(row.password ? ["a password"] : []), ...several(row.tokens, "token", "tokens"),
      ...several(row.access_keys, "access key", "access keys"), ...several(row.certificates, "certificate", "certificates")];
    return h("tr", {}, h("th", { scope: "row" }, row.name), h("td", {}, row.broker.join(", ") || "nothing"),
      h("td", {}, row.grants.length ? row.grants.map((grant) => h("div", {}, h("code", {}, grant.on), ` ${grant.rights.join(", ")}`)) : "nothing"),
      h("td", { class: "muted" }, proofs.join(", ") || "nothing"));
  }
}
