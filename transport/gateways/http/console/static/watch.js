// Publish to a queue, and watch what comes: by looking, which takes nothing, or as a receiver with a credit of its own.

import { ask as request, path } from "./api.js";
import { button, field, h, say, trying } from "./dom.js";
import { count } from "./format.js";
import { messageItem, peek, peeked } from "./messages.js";

/** Messages that are listed here. */
const MOST_LISTED = 200;
/** The shortest time between two looks. */
const LOOK_MS = 500;
const LOOK_COUNT = 100;
const CREDIT = 10;

export class Watch {
  #following = null;
  #looking = false;
  #lookedAt = 0;
  #later = null;
  #seen = "";
  #receiver = null;
  /** Told to whatever is being opened, or stands: whether it is still the one. */
  #taking = null;
  #given = 0;

  constructor(app, queue) {
    this.app = app;
    this.queue = queue;
    this.element = h("div", { class: "two" }, this.#publishing(), this.#watching());
  }

  // --- publishing

  #publishing() {
    const payload = h("textarea", { rows: 6, spellcheck: "false" });
    const key = h("input", { autocomplete: "off" });
    const headers = h("textarea", { rows: 2, spellcheck: "false", placeholder: "table: 7" });
    const delay = h("input", { autocomplete: "off", placeholder: "none" });
    const ttl = h("input", { autocomplete: "off", placeholder: "as the queue has it" });
    const done = h("p", { role: "status", class: "muted" });
    const publish = async (event) => {
      event.preventDefault();
      await trying(async () => {
        const message = { payload: payload.value };
        if (key.value) message.key = key.value;
        const named = headersOf(headers.value);
        if (Object.keys(named).length) message.headers = named;
        if (delay.value.trim()) message.delay = delay.value.trim();
        if (ttl.value.trim()) message.ttl = ttl.value.trim();
        const answer = await request("POST", path("queues", this.queue, "messages"), message);
        done.textContent = `Stored as number ${count(answer.numbers[0])}.`;
      });
    };
    return h("section", { class: "panel", "aria-labelledby": "publish" }, h("h2", { id: "publish" }, "Publish"),
      h("form", { onsubmit: publish }, field("Payload", payload),
        h("details", { class: "more" }, h("summary", {}, "Key, headers, delay"), field("Key", key), field("Headers", headers, "One a line, as name: value."),
          field("Delay", delay, "Until it can be received: 500ms, 10s, 1m."), field("Time to live", ttl, "After which nobody needs it.")),
        h("div", { class: "buttons" }, h("button", { type: "submit", class: "main" }, "Publish"))), done);
  }

  // --- watching

  #watching() {
    this.list = h("ol", { class: "messages" });
    this.status = h("p", { role: "status", class: "muted" });
    const way = (value, text, help, checked) => {
      const input = h("input", { type: "radio", name: "way", value, checked, onchange: () => this.#choose(value) });
      return [field(text, input, help)].map((each) => (each.classList.add("check"), each));
    };
    this.credit = h("input", { type: "number", min: 1, max: 1000, value: CREDIT, id: "credit" });
    this.start = button("Take", () => this.#take(), { class: "main" });
    this.more = button("Ask for as many more", () => this.#more());
    this.back = button("Stop and give back", () => this.#stop());
    this.settle = button("Acknowledge all", () => this.#acknowledgeAll(), { class: "danger" });
    this.taking = h("div", { hidden: true },
      h("p", { class: "note" }, "While you hold a message, nobody else gets it. It goes back to its place when you stop, close the page, or hold it for longer than the queue’s",
        " visibility timeout, and is then marked as perhaps delivered before. One that you acknowledge is gone for good."),
      h("div", { class: "bar" }, h("label", { for: "credit" }, "Credit"), this.credit, this.start, this.more, this.back, this.settle));
    this.#buttons();
    return h("section", { class: "panel", "aria-labelledby": "watch" }, h("h2", { id: "watch" }, "Watch"),
      h("fieldset", {}, h("legend", {}, "How"), way("look", "Look without taking", "What is stored is shown as it comes, and stays where it is.", true),
        way("take", "Take as a receiver", "This page asks the queue for so many messages, and for no more.", false)),
      this.taking, this.status, this.list);
  }

  #choose(way) {
    this.taking.hidden = way !== "take";
    this.way = way;
    this.list.replaceChildren();
    this.status.textContent = "";
    this.#leave();
    if (way === "look") {
      this.#following = null;
      this.#look();
    }
  }

  way = "look";

  /** Something is other than before in the queue: look again, where that is what is wanted. */
  picture(flow) {
    if (this.way !== "look") return;
    const now = `${flow.stored_messages} ${flow.stored_bytes} ${flow.came}`;
    if (now === this.#seen) return;
    this.#seen = now;
    this.#look();
  }

  async #look() {
    if (this.#looking || this.#later) return;
    const wait = this.#lookedAt + LOOK_MS - performance.now();
    if (wait > 0) {
      this.#later = setTimeout(() => {
        this.#later = null;
        this.#look();
      }, wait);
      return;
    }
    this.#looking = true;
    this.#lookedAt = performance.now();
    try {
      const asked = this.#following === null ? { newest: true, count: 20 } : { start: this.#following, count: LOOK_COUNT };
      const found = await peek(this.queue, asked);
      if (this.way !== "look") return;
      for (const row of found.messages) this.#add(messageItem(peeked(row)));
      if (found.messages.length) this.#following = found.messages.at(-1).number + 1;
      this.status.textContent = this.list.childElementCount ? "Showing messages as they come, the newest first." : "No message is stored. What comes is shown here.";
      if (found.messages.length === LOOK_COUNT) this.#seen = "";
    } catch (error) {
      this.status.textContent = `Cannot look: ${error.message}`;
    } finally {
      this.#looking = false;
    }
  }

  #add(item) {
    this.list.prepend(item);
    while (this.list.childElementCount > MOST_LISTED) this.list.lastElementChild.remove();
  }

  // --- as a receiver

  #take() {
    if (this.#taking) return undefined;
    return trying(async () => {
      const credit = this.#credit();
      const taking = (this.#taking = {});
      const current = () => this.#taking === taking;
      this.#buttons();
      this.list.replaceChildren();
      this.#given = 0;
      try {
        const native = await import("./native.js").catch(() => {
          throw new Error("this broker gives pages no messages to hold");
        });
        if (!current()) return;
        const receiver = await native.openReceiver({
          queue: this.queue, existing: true, clientId: "console",
          onMessage: (message) => current() && this.#took(message),
          onEnd: (error) => current() && this.#ended(error),
        });
        // Nobody is there any more who could give back what it is sent.
        if (!current()) receiver.close();
        else if (!receiver.isOver) {
          this.#receiver = receiver;
          receiver.request(credit);
        }
      } catch (error) {
        if (current()) this.#taking = null;
        throw error;
      } finally {
        this.#buttons();
        this.#count();
      }
    });
  }

  #credit() {
    const credit = Number(this.credit.value);
    if (!Number.isInteger(credit) || credit < 1 || credit > 1000) throw new Error("the credit is a number of messages from 1 to 1,000");
    return credit;
  }

  #took(message) {
    this.#given += 1;
    const done = button("Acknowledge", () => this.#settle(item, message, (receiver) => receiver.acknowledge(message), "acknowledged"),
      { class: "small", "aria-label": `Acknowledge message ${message.number}` });
    const back = button("Give back", () => this.#settle(item, message, (receiver) => receiver.giveBack([message], { failed: false }), "given back"),
      { class: "small", "aria-label": `Give back message ${message.number}` });
    const headers = Object.fromEntries([...(message.headers ?? [])].map(([name, value]) =>
      [name, typeof value === "string" ? value : { base64: btoa(String.fromCharCode(...value)) }]));
    const item = messageItem({ number: message.number, payload: message.payload, key: message.key?.length ? message.key : null, headers,
      deliveries: message.deliveries, replayed: message.replayed }, [done, back]);
    item.message = message;
    this.#add(item);
    this.#count();
  }

  #settle(item, message, how, word) {
    if (!this.#receiver?.held.has(message.number)) {
      say(`Message ${count(message.number)} is not held any more: it has gone back.`, "error");
      item.remove();
      return;
    }
    how(this.#receiver);
    // The focus must not be lost with the button.
    const next = item.nextElementSibling ?? item.previousElementSibling;
    item.remove();
    (next?.querySelector("button") ?? this.more).focus();
    this.status.dataset.last = word;
    this.#count();
  }

  #acknowledgeAll() {
    const items = [...this.list.children].filter((item) => this.#receiver?.held.has(item.message?.number));
    if (!items.length) return;
    this.#receiver.acknowledge(...items.map((item) => item.message));
    for (const item of items) item.remove();
    say(`${count(items.length)} messages are acknowledged, and gone from the queue.`);
    this.#count();
  }

  #more() {
    return trying(async () => {
      this.#receiver?.request(this.#credit());
      this.#count();
    });
  }

  #count() {
    const receiver = this.#receiver;
    if (receiver) this.status.textContent = `Connected as a receiver. ${count(this.#given)} came, ${count(receiver.held.size)} held, ${count(receiver.wanted)} still wanted.`;
  }

  #ended(error) {
    if (this.#receiver === null && error === null) return;
    this.#receiver = this.#taking = null;
    this.list.replaceChildren();
    this.#buttons();
    this.status.textContent = error ? `The connection ended: ${error.message}. What was held has gone back.` : "Stopped. What was held has gone back.";
  }

  async #stop() {
    const receiver = this.#receiver;
    if (receiver === null) return;
    await trying(() => receiver.close());
  }

  /** Be no receiver any more; what happens to the connection is of no interest here. */
  #leave() {
    this.#taking = null;
    this.#receiver?.close();
    this.#receiver = null;
    this.#buttons();
  }

  #buttons() {
    const open = this.#receiver !== null;
    this.start.disabled = this.#taking !== null;
    for (const each of [this.more, this.back, this.settle]) each.disabled = !open;
  }

  close() {
    clearTimeout(this.#later);
    this.#leave();
  }
}

function headersOf(text) {
  const found = {};
  for (const line of text.split("\n")) {
    if (!line.trim()) continue;
    const colon = line.indexOf(":");
    if (colon < 1) throw new Error(`the header ${line.trim()} has no colon: write name: value`);
    found[line.slice(0, colon).trim()] = line.slice(colon + 1).trim();
  }
  return found;
}
