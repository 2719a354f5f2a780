// All queues in a table, page by page in one order, with two minutes of each beside it.

import { ask as request, path, settings } from "./api.js";
import { ask, settingFields } from "./dialogs.js";
import { button, enable, field, h, say, setFact, setText, trying } from "./dom.js";
import { count, kindClass, rate, shareOf } from "./format.js";
import { sparkline } from "./sparkline.js";

const ROWS = 50;
/** How far down a picture can begin: MOST_BEFORE of the broker. */
const MOST_BEFORE = 1000;
const ORDERS = { pressure: "pressure", rate: "rate", backlog: "backlog", name: "name" };
const HOLD_MS = 250;

class Row {
  constructor(name) {
    this.link = h("a", { href: `#/queues/${encodeURIComponent(name)}` }, name);
    this.inline = h("span", { class: "pill inline" });
    this.pill = h("span", { class: "pill" });
    this.cells = Object.fromEntries(["ready", "held", "came", "went", "clients"].map((each) => [each, h("td", { class: `number ${each}` })]));
    this.line = sparkline(160, 30);
    this.meter = h("i");
    this.used = h("span", { class: "meter", role: "img" }, this.meter);
    const { ready, held, came, went, clients } = this.cells;
    this.element = h("tr", {}, h("th", { scope: "row", class: "name" }, this.link, this.inline), h("td", { class: "pressure" }, this.pill),
      ready, held, came, went, h("td", { class: "trend" }, this.line), h("td", { class: "used" }, this.used), clients);
  }

  update(row) {
    for (const pill of [this.pill, this.inline]) {
      setText(pill, row.pressure);
      setFact(pill, "data-kind", kindClass(row.pressure));
      setFact(pill, "title", row.sentence);
    }
    setText(this.cells.ready, count(row.ready));
    setText(this.cells.held, count(row.held));
    setText(this.cells.came, rate(row.came));
    setText(this.cells.went, rate(row.went));
    setText(this.cells.clients, `${count(row.attached_senders)} / ${count(row.attached_receivers)}`);
    const share = shareOf(row);
    const percent = Math.min(100, Math.round(share * 100));
    this.meter.style.width = `${percent}%`;
    this.used.toggleAttribute("data-high", percent >= 90);
    setFact(this.used, "aria-label", `${percent} % of its limit`);
    setFact(this.used, "title", `${percent} % of its limit`);
  }
}

/** The view; `app` gives the stream and the samples. */
export class Queues {
  title = "Queues";
  #rows = new Map();
  #order = [];
  /** Whether somebody points at a row, and whether somebody is in one by keyboard. */
  #pointed = false;
  #within = false;
  /** Whether something else is asked for than what was shown before. */
  #anew = true;
  #picture = null;
  #later = null;

  constructor(app, query) {
    this.app = app;
    this.order = Object.hasOwn(ORDERS, query.get("order") ?? "") ? query.get("order") : "pressure";
    this.contains = query.get("contains") ?? "";
    this.start = Math.min(MOST_BEFORE, Math.max(0, Math.trunc(Number(query.get("start"))) || 0));
    this.#build();
  }

  get asked() {
    return { order: this.order, limit: ROWS, start: this.start, ...(this.contains ? { contains: this.contains } : {}) };
  }

  #build() {
    this.filter = h("input", { type: "search", id: "filter", value: this.contains, autocomplete: "off", placeholder: "part of a name", maxlength: 255 });
    this.filter.addEventListener("input", () => {
      clearTimeout(this.#later);
      this.#later = setTimeout(() => this.#ask({ contains: this.filter.value.trim(), start: 0 }), HOLD_MS);
    });
    this.sort = h("select", { id: "sort", onchange: () => this.#ask({ order: this.sort.value, start: 0 }) },
      ...Object.entries(ORDERS).map(([value, text]) => h("option", { value, selected: value === this.order }, text)));
    this.heads = new Map();
    const head = (text, kind, order) => {
      const th = h("th", { scope: "col", class: kind });
      th.append(order ? button(text, () => this.#ask({ order, start: 0 }), { class: "plain" }) : text);
      if (order) this.heads.set(th, order);
      return th;
    };
    this.body = h("tbody");
    // While somebody points at a row or is in one by keyboard, rows stay where they are.
    for (const [name, pointed] of [["pointerenter", true], ["pointerleave", false]])
      this.body.addEventListener(name, ({ pointerType }) => {
        if (pointerType === "touch") return;
        this.#pointed = pointed;
        this.#letGo();
      });
    this.body.addEventListener("focusin", () => (this.#within = true));
    this.body.addEventListener("focusout", ({ relatedTarget }) => {
      this.#within = this.body.contains(relatedTarget);
      this.#letGo();
    });
    this.empty = h("p", { class: "empty", hidden: true });
    this.table = h("table", { class: "queues" }, h("caption", { class: "unseen" }, "Queues, with figures of now and the last two minutes"),
      h("thead", {}, h("tr", {}, head("Queue", "name", "name"), head("Pressure", "pressure", "pressure"), head("Ready", "number", "backlog"),
        head("Held", "number held"), head("In/s", "number came", "rate"), head("Out/s", "number went"), head("Trend", "trend"),
        head("Used", "used"), head("Send / recv", "number clients"))), this.body);
    this.before = button("Previous", () => this.#ask({ start: Math.max(0, this.start - ROWS) }));
    this.next = button("Next", () => this.#ask({ start: this.start + ROWS }));
    this.where = h("span", { "aria-live": "polite" });
    this.element = h("section", { "aria-labelledby": "title" },
      h("div", { class: "bar" }, h("h1", { id: "title", tabindex: "-1" }, "Queues"),
        h("label", { for: "filter" }, "Filter"), h("div", { class: "grow" }, this.filter), h("span", { class: "pair" }, h("label", { for: "sort" }, "Sort by"), this.sort),
        button("Create a queue", () => this.#create(), { class: "main" })),
      h("div", { class: "scrolls" }, this.table, this.empty),
      h("ul", { class: "key" }, h("li", { class: "ready" }, h("i"), "ready"), h("li", {}, h("i"), "in"), h("li", { class: "went" }, h("i"), "out"), h("li", {}, "over two minutes")),
      h("div", { class: "pages" }, this.before, this.next, this.where));
    this.#mark();
  }

  #ask(change) {
    Object.assign(this, change);
    this.#anew = true;
    this.start = Math.min(MOST_BEFORE, this.start);
    this.#mark();
    const { limit, ...asked } = this.asked;
    history.replaceState(null, "", `#/queues?${new URLSearchParams(asked)}`);
    this.app.ask(this.asked);
  }

  #mark() {
    this.sort.value = this.order;
    for (const [th, order] of this.heads)
      if (order === this.order) th.setAttribute("aria-sort", order === "name" ? "ascending" : "descending");
      else th.removeAttribute("aria-sort");
  }

  picture(picture) {
    this.#picture = picture;
    for (const row of picture.queues) {
      if (!this.#rows.has(row.name)) this.#rows.set(row.name, new Row(row.name));
      this.#rows.get(row.name).update(row);
    }
    this.#place(picture.queues, !this.#anew && this.#held);
    this.#anew = false;
    if (this.start > 0 && this.start >= picture.matching) {
      // There are not so many, or not any more: the last page is what is meant.
      this.#ask({ start: Math.max(0, Math.ceil(picture.matching / ROWS) - 1) * ROWS });
      return;
    }
    const from = picture.matching ? this.start + 1 : 0;
    setText(this.where, `${count(from)} to ${count(this.start + picture.queues.length)} of ${count(picture.matching)}` +
      (this.start + ROWS > MOST_BEFORE && picture.matching > this.start + ROWS ? ". Filter by name to see others" : ""));
    enable([this.before, this.start > 0], [this.next, this.start + ROWS < picture.matching && this.start + ROWS <= MOST_BEFORE]);
    this.empty.hidden = picture.queues.length > 0;
    this.table.hidden = picture.queues.length === 0;
    setText(this.empty, this.contains ? `No queue has “${this.contains}” in its name.` : "There are no queues yet. Create one, or send to one: it is made by being used.");
    this.tick();
  }

  get #held() {
    return this.#pointed || this.#within;
  }

  #letGo() {
    if (!this.#held && this.#picture) this.#place(this.#picture.queues);
  }

  /** Put the rows in their order; or have them stay where they are, and others come behind them. */
  #place(rows, stay = false) {
    let names = rows.map((row) => row.name);
    if (stay) {
      const there = new Set(names);
      const before = new Set(this.#order);
      names = [...this.#order.filter((name) => there.has(name)), ...names.filter((name) => !before.has(name))];
    }
    if (names.join("\n") !== this.#order.join("\n") || this.body.childElementCount !== names.length) {
      const kept = new Set(names);
      for (const [name, row] of this.#rows)
        if (!kept.has(name)) {
          row.element.remove();
          this.#rows.delete(name);
        }
      names.forEach((name, index) => {
        const { element } = this.#rows.get(name);
        if (this.body.children[index] !== element) this.body.insertBefore(element, this.body.children[index] ?? null);
      });
      this.#order = names;
    }
  }

  tick() {
    for (const [name, row] of this.#rows) row.line.draw(this.app.histories.of(name));
  }

  async #create() {
    const described = await trying(settings);
    if (!described || !this.element.isConnected) return;
    const name = h("input", { autocomplete: "off", autocapitalize: "off", spellcheck: "false", required: true });
    const { elements, given } = settingFields(described);
    ask({
      title: "Create a queue", verb: "Create",
      body: [field("Name", name), h("details", { class: "more" }, h("summary", {}, "Settings"), ...elements)],
      act: async (isOpen) => {
        await request("POST", path("queues"), { name: name.value, ...given() });
        say(`Queue ${name.value} is there.`);
        if (isOpen()) location.hash = `#/queues/${encodeURIComponent(name.value)}`;
      },
    });
  }

  close() {
    clearTimeout(this.#later);
  }
}
