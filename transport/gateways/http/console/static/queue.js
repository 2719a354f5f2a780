// One queue: who holds back whom, its figures, its messages, its settings, and what can be done to it.

import { ask as request, path, session, settings } from "./api.js";
import { ask, confirmByName, settingFields } from "./dialogs.js";
import { button, field, h, say, setFact, setText, table, trying } from "./dom.js";
import { draw } from "./flow.js";
import { bytes, count, duration, kindClass, rate, typedCount } from "./format.js";
import { closeConnection } from "./lists.js";
import { Messages } from "./messages.js";
import { sparkline } from "./sparkline.js";
import { Watch } from "./watch.js";

const TABS = { "": "Flow", messages: "Messages", watch: "Publish and watch", settings: "Settings" };
/** A judgement is told to screen readers once in so many milliseconds at most. */
const TOLD_MS = 8000;
const MOST_STEPS = 100000;

/** Whether it gets nothing because another has the queue. */
const inLine = (party) => party.waits && party.role !== "subscription";

const FACTS = [
  ["Ready", (row) => count(row.ready)],
  ["Held", (row) => count(row.held)],
  ["Delayed", (row) => count(row.delayed)],
  ["In per s", (row) => rate(row.came)],
  ["Out per s", (row) => rate(row.went)],
  ["Done per s", (row) => rate(row.acknowledged)],
  ["Receivers want", (row) => count(row.wanted)],
  ["Senders may send", (row) => count(row.granted)],
  ["Senders that wait", (row) => count(row.waiting_senders)],
  ["Stored", (row) => count(row.stored_messages) + (row.max_messages === null ? "" : ` of ${count(row.max_messages)}`)],
  ["Bytes", (row) => bytes(row.stored_bytes) + (row.max_bytes === null ? "" : ` of ${bytes(row.max_bytes)}`)],
  ["Oldest", (row) => (row.stored_messages && row.oldest_ms !== null ? duration(row.oldest_ms / 1000) : "none")],
];

export class Queue {
  #told = { kind: "", at: -Infinity };
  #flow = null;

  constructor(app, query, [name, tab = ""]) {
    this.app = app;
    this.name = name;
    this.tab = Object.hasOwn(TABS, tab) ? tab : "";
    this.title = name;
    this.asked = { order: "pressure", limit: 1, queue: name };
    this.pill = h("span", { class: "pill" });
    const link = (key, text) =>
      h("a", { href: `#/queues/${encodeURIComponent(name)}${key && `/${key}`}`, "aria-current": key === this.tab ? "page" : null }, text);
    this.content = h("div");
    this.gone = h("p", { class: "note bad", hidden: true }, "There is no such queue. It was deleted, or was never there.");
    this.element = h("section", { "aria-labelledby": "title" },
      h("div", { class: "bar" }, h("div", { class: "title" }, h("h1", { id: "title", tabindex: "-1" }, name), this.pill),
        button("Alter", () => this.#alter()), button("Move", () => this.#move()),
        button("Purge", () => this.#purge(), { class: "danger" }), button("Delete", () => this.#delete(), { class: "danger" })),
      h("nav", { class: "tabs", "aria-label": "Parts of the queue" }, Object.entries(TABS).map(([key, text]) => link(key, text))),
      this.gone, this.content);
    this.inner = { "": () => this.#buildFlow(), messages: () => this.#keep(new Messages(name)), watch: () => this.#keep(new Watch(app, name)),
      settings: () => this.#buildSettings() }[this.tab]();
  }

  #keep(part) {
    this.content.append(part.element);
    return part;
  }

  #buildFlow() {
    this.sentence = h("p", { class: "sentence" });
    this.spoken = h("p", { class: "unseen", role: "status" });
    this.svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.svg.setAttribute("class", "flow");
    this.svg.setAttribute("role", "img");
    this.svg.setAttribute("aria-label", "Flow");
    this.holder = h("div", {}, this.svg);
    this.line = sparkline(600, 110);
    this.line.classList.add("large");
    this.facts = FACTS.map(([text]) => {
      const value = h("dd");
      return { value, element: h("dl", {}, h("dt", {}, text), value) };
    });
    this.senders = h("tbody");
    this.receivers = h("tbody");
    const columns = (more) => [["Who", ""], ["From", ""], ["Messages/s", "number"], ...more, ["", "end"]];
    this.content.append(this.sentence, this.spoken, h("div", { class: "panel" }, this.holder),
      h("div", { class: "two" },
        h("section", { class: "panel", "aria-labelledby": "minutes" }, h("h2", { id: "minutes" }, "Two minutes"), this.line,
          h("ul", { class: "key" }, h("li", { class: "ready" }, h("i"), "ready"), h("li", {}, h("i"), "in"), h("li", { class: "went" }, h("i"), "out"))),
        h("section", { class: "panel", "aria-labelledby": "figures" }, h("h2", { id: "figures" }, "Figures"),
          h("div", { class: "facts" }, this.facts.map((each) => each.element)))),
      h("div", { class: "two" },
        h("section", { "aria-labelledby": "senders" }, h("h2", { id: "senders" }, "Senders"),
          table("Senders of the queue", columns([["May send", "number"], ["State", ""]]), this.senders)),
        h("section", { "aria-labelledby": "receivers" }, h("h2", { id: "receivers" }, "Receivers"),
          table("Receivers of the queue", columns([["Holds", "number"], ["Wants", "number"]]), this.receivers))));
    this.resized = new ResizeObserver(() => this.#draw());
    this.resized.observe(this.holder);
    return null;
  }

  #draw() {
    if (this.#flow && this.holder.clientWidth) draw(this.svg, this.#flow, this.holder.clientWidth);
  }

  picture(picture) {
    const flow = (this.#flow = picture.flow);
    this.gone.hidden = flow !== null;
    this.pill.hidden = flow === null;
    this.content.hidden = flow === null;
    if (flow === null) {
      this.inner?.picture?.(null);
      return;
    }
    setText(this.pill, flow.pressure);
    setFact(this.pill, "data-kind", kindClass(flow.pressure));
    if (this.tab !== "") {
      this.inner?.picture?.(flow);
      return;
    }
    setText(this.sentence, `${flow.sentence}.`);
    setFact(this.sentence, "data-kind", kindClass(flow.pressure));
    this.#speak(flow);
    this.#draw();
    FACTS.forEach(([, of], index) => setText(this.facts[index].value, of(flow)));
    this.#parties(this.senders, flow.senders, (party) => [count(party.demand), party.waits ? "waits for room" : "may send"]);
    this.#parties(this.receivers, flow.receivers, (party) => [count(party.held), inLine(party) ? "in line" : count(party.demand)]);
    this.tick();
  }

  #speak(flow) {
    const now = performance.now();
    if (flow.pressure === this.#told.kind || now - this.#told.at < TOLD_MS) return;
    this.#told = { kind: flow.pressure, at: now };
    this.spoken.textContent = flow.sentence;
  }

  #parties(body, parties, more) {
    if (!parties.length) {
      body.replaceChildren(h("tr", {}, h("td", { colspan: 6, class: "muted" }, "nobody")));
      return;
    }
    const ids = parties.map((party) => `${party.role} ${party.id} ${party.client} ${party.subscription}`).join("\n");
    if (body.dataset.ids !== ids || !body.querySelector("th")) {
      body.dataset.ids = ids;
      body.replaceChildren(...parties.map((party) => {
        const cells = more(party).map((_, index) => h("td", { class: index === 0 || body === this.receivers ? "number" : "" }));
        const close = party.id === null ? null
          : button("Close", () => closeConnection(party), { class: "small danger", "aria-label": `Close the connection of ${party.subscription || party.client || party.peer || party.id}` });
        const who = { taker: "HTTP requests", subscription: "Spark query" }[party.role];
        // A query is known by its subscription, as in the sentence; its owner is a host and a process.
        const [name, owner] = [party.subscription, party.client].filter(Boolean);
        return h("tr", {}, h("th", { scope: "row" }, name ?? who ?? "no name", name && who ? h("small", {}, ` ${who}`) : "", owner && h("small", { class: "second" }, owner)),
          h("td", { class: "muted" }, party.peer ?? ""), h("td", { class: "number" }), ...cells, h("td", { class: "end" }, close));
      }));
    }
    parties.forEach((party, index) => {
      const cells = body.rows[index].cells;
      setText(cells[2], rate(party.rate));
      more(party).forEach((text, at) => setText(cells[3 + at], text));
    });
  }

  tick() {
    if (this.tab === "") this.line.draw(this.app.histories.of(this.name));
  }

  async #row() {
    return request("GET", path("queues", this.name));
  }

  #buildSettings() {
    const body = h("tbody");
    this.content.append(table("Settings of the queue", [["Setting", ""], ["Value", ""], ["What it does", ""]], body),
      h("div", { class: "pages" }, button("Alter", () => this.#alter(), { class: "main" })));
    this.showSettings = () => trying(async () => {
      const [described, row] = await Promise.all([settings(), this.#row()]);
      body.replaceChildren(...Object.entries(described).map(([name, { description }]) => {
        const raw = row[name] ?? row[name.replace(/_ms$/, "")];
        const value = raw === null || raw === undefined ? "not set" : name.endsWith("bytes") ? bytes(raw)
          : name.endsWith("_ms") ? duration(raw) : typeof raw === "number" ? count(raw) : String(raw);
        return h("tr", {}, h("th", { scope: "row" }, name.replace(/_ms$/, "").replaceAll("_", " ")), h("td", { class: "mono" }, value), h("td", { class: "muted" }, description));
      }));
    });
    this.showSettings();
    return null;
  }

  // --- what can be done

  #alter() {
    return trying(async () => {
      const [described, row] = await Promise.all([settings(), this.#row()]);
      if (!this.element.isConnected) return;
      const current = { ...row };
      for (const name of Object.keys(described))
        if (name.endsWith("_ms")) current[name] = row[name.slice(0, -3)] == null ? null : Math.round(row[name.slice(0, -3)] * 1000);
      const { exclusive, durable, single_active_consumer: single, ...possible } = described;
      const { elements, given } = settingFields(possible, current);
      ask({
        title: `Alter ${this.name}`, verb: "Alter", body: elements,
        act: async () => {
          await request("PATCH", path("queues", this.name), given());
          say(`Queue ${this.name} has other settings.`);
          this.showSettings?.();
        },
      });
    });
  }

  #purge() {
    confirmByName({
      title: `Purge ${this.name}`, verb: "Purge", name: this.name,
      text: "All messages that wait are dropped. Those that receivers hold stay with them. This cannot be undone.",
      act: async () => {
        const done = await request("POST", path("queues", this.name, "purge"));
        say(`${count(done.purged)} messages were dropped.`);
      },
    });
  }

  #delete() {
    confirmByName({
      title: `Delete ${this.name}`, verb: "Delete", name: this.name,
      text: "The queue goes with all that it holds, and the connections of its senders and receivers are ended. This cannot be undone.",
      act: async (isOpen) => {
        await request("DELETE", path("queues", this.name));
        say(`Queue ${this.name} is deleted.`);
        if (isOpen()) location.hash = "#/queues";
      },
    });
  }

  #move() {
    const to = h("input", { autocomplete: "off", autocapitalize: "off", spellcheck: "false", required: true });
    const most = h("input", { type: "text", inputmode: "numeric", autocomplete: "off", placeholder: "all that are ready" });
    const create = h("input", { type: "checkbox" });
    confirmByName({
      title: `Move messages of ${this.name}`, verb: "Move", name: this.name,
      text: "Messages that are ready go to another queue, in their order.",
      more: [field("To the queue", to), field("How many at most", most), field("Make the queue where there is none", create)],
      act: async (isOpen) => {
        if (!to.value) throw new Error("say which queue they go to");
        let left = most.value.trim() ? typedCount(most.value.trim()) : null;
        if (most.value.trim() && !left) throw new Error(`${most.value} is no number of messages`);
        let moved = 0;
        let after = null;
        for (let step = 0; step < MOST_STEPS; step += 1) {
          const body = { to: to.value, create: create.checked, ...(left === null ? {} : { count: left }), ...(after ? { after } : {}) };
          const done = await request("POST", path("queues", this.name, "move"), body);
          moved += done.moved;
          if (left !== null) left -= done.moved;
          after = done.next;
          if (!after || left === 0 || !isOpen()) break;
        }
        const rest = isOpen() ? (after && left !== 0 ? " There are more: move again." : "") : " The others stay where they are.";
        say(`${count(moved)} messages are in ${to.value} now.${rest}`);
      },
    });
  }

  close() {
    this.resized?.disconnect();
    this.inner?.close?.();
  }
}
