// Publish to a queue, and watch what comes: by looking, which takes nothing, or as a receiver with a credit of its own.

import { ask as request, path } from "./api.js";
import { button, enable, field, h, say, trying } from "./dom.js";
import { count } from "./format.js";
import { messageItem, peek, peeked } from "./messages.js";

/** Messages that are listed here; as a receiver this page holds no more than it lists. */
const MOST_LISTED = 200;
/** The shortest time between two looks. */
const LOOK_MS = 500;
const LOOK_COUNT = 100;
const CREDIT = 10;
/** For which a queue leaves a message with its receiver at most: twelve hours. */
const LONGEST_MS = 43200000;

export class Watch {
  #following = null;
  /** When the last one was stored that was looked at. */
  #stored = 0;
  #looking = false;
  /** Whether something came while it was looked, which may not have seen it. */
  #again = false;
  #lookedAt = 0;
  #later = null;
  #seen = "";
  #receiver = null;
  /** Wakes when the time of the first of those that are held is over. */
  #over = null;
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
    this.credit = h("input", { type: "number", min: 1, max: MOST_LISTED, value: CREDIT, id: "credit" });
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
    if (flow === null) {
      this.#begin();
      return;
    }
    const now = `${flow.stored_messages} ${flow.stored_bytes} ${flow.came}`;
    if (now === this.#seen) return;
    this.#seen = now;
    this.#look();
  }

  /** Whatever was looked at was of another queue, which is gone: one of the same name begins with number 0 again. */
  #begin() {
    this.#following = null;
    this.#stored = 0;
    this.#seen = "";
    this.list.replaceChildren();
  }

  /** Whether the queue was made anew: it has stored a message later than what was looked at last, under a number that is not higher. */
  async #anew() {
    const [newest] = (await peek(this.queue, { newest: true, count: 1 })).messages;
    return newest !== undefined && newest.number < this.#following && newest.enqueued_us > this.#stored;
  }

  async #look() {
    this.#again = this.#looking;
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
    const from = this.#following;
    // Where the list was begun anew meanwhile, this is no part of it.
    const current = () => this.way === "look" && this.#following === from;
    this.#lookedAt = performance.now();
    try {
      const asked = from === null ? { newest: true, count: 20 } : { start: from, count: LOOK_COUNT };
      const found = await peek(this.queue, asked);
      if (!current()) return;
      for (const row of found.messages) this.#add(messageItem(peeked(row)));
      const last = found.messages.at(-1);
      if (last) [this.#following, this.#stored] = [last.number + 1, last.enqueued_us];
      else if (from !== null) {
        const anew = await this.#anew();
        if (!current()) return;
        if (anew) this.#begin();
        this.#again ||= anew;
      }
      this.status.textContent = this.list.childElementCount ? "Showing messages as they come, the newest first." : "No message is stored. What comes is shown here.";
      if (found.messages.length === LOOK_COUNT) this.#seen = "";
    } catch (error) {
      if (this.way !== "look") return;
      this.status.textContent = `Cannot look: ${error.message}`;
      // A broker that is there again may have nothing new.
      this.#seen = "";
    } finally {
      this.#looking = false;
      if (this.#again && this.element.isConnected && this.way === "look") this.#look();
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

  /** How many more to ask for. */
  #credit() {
    const credit = Number(this.credit.value);
    if (!Number.isInteger(credit) || credit < 1 || credit > MOST_LISTED) throw new Error(`the credit is a number of messages from 1 to ${MOST_LISTED}`);
    const taken = this.#receiver ? this.#receiver.held.size + this.#receiver.wanted : 0;
    if (taken + credit > MOST_LISTED) throw new Error(`this page takes ${MOST_LISTED} messages at most, and has asked for ${taken} of them: acknowledge some, or give them back`);
    return credit;
  }

  #took(message) {
    this.#given += 1;
    const done = button("Acknowledge", () => this.#settle(item, message, (receiver) => receiver.acknowledge(message), "acknowledged"),
      { class: "small", "aria-label": `Acknowledge message ${message.number}` });
    const back = button("Give back", () => this.#settle(item, message, (receiver) => receiver.giveBack([message], { failed: false }), "given back"),
      { class: "small", "aria-label": `Give back message ${message.number}` });
    const item = messageItem({ number: message.number, payload: message.payload, key: message.key?.length ? message.key : null,
      headers: Object.fromEntries(message.headers), deliveries: message.deliveries, replayed: message.replayed }, [done, back]);
    item.message = message;
    item.until = performance.now() + this.#visibility;
    // One that comes again takes the place of its earlier delivery, whose time was over.
    this.#items().find((each) => each.message.number === message.number)?.remove();
    this.list.prepend(item);
    this.#over ??= setTimeout(() => this.#letGo(), this.#visibility);
    this.#count();
  }

  #items() {
    return [...this.list.children];
  }

  /** For so many milliseconds the queue leaves a message with its receiver. */
  get #visibility() {
    return this.#receiver?.welcome.get("visibility_timeout_ms") ?? LONGEST_MS;
  }

  /** Those whose time is over are with this page no more: the queue gives them to whoever receives next. */
  #letGo() {
    clearTimeout(this.#over);
    this.#over = null;
    if (this.#receiver === null) return;
    const now = performance.now();
    const items = this.#items();
    const over = items.filter((item) => item.until <= now);
    if (over.length) {
      this.#receiver.giveBack(over.map((item) => item.message), { failed: false });
      this.#remove(over);
      this.#count();
      say(`${over.length === 1 ? `Message ${count(over[0].message.number)} has` : `${count(over.length)} messages have`} gone back: held for longer than the queue’s visibility timeout.`, "error");
    }
    const next = Math.min(...items.filter((item) => item.until > now).map((item) => item.until));
    if (next < Infinity) this.#over = setTimeout(() => this.#letGo(), next - now + 1);
  }

  /** Take them from the list. The focus must not be lost with a button. */
  #remove(items) {
    const gone = new Set(items);
    const at = this.#items().findIndex((item) => item.contains(document.activeElement));
    const all = this.#items();
    for (const item of items) item.remove();
    if (at < 0 || !gone.has(all[at])) return;
    const next = all.slice(at).find((item) => !gone.has(item)) ?? all.slice(0, at).findLast((item) => !gone.has(item));
    (next?.querySelector("button:not(:disabled)") ?? this.more).focus();
  }

  #settle(item, message, how, word) {
    this.#letGo();
    if (this.#receiver?.held.get(message.number) !== message) return;
    how(this.#receiver);
    this.#remove([item]);
    this.status.dataset.last = word;
    this.#count();
  }

  #acknowledgeAll() {
    this.#letGo();
    const messages = [...(this.#receiver?.held.values() ?? [])];
    if (!messages.length) return;
    this.#receiver.acknowledge(...messages);
    this.list.replaceChildren();
    say(`${messages.length === 1 ? "1 message is" : `${count(messages.length)} messages are`} acknowledged, and gone from the queue.`);
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
    clearTimeout(this.#over);
    this.#over = null;
    const lost = this.list.contains(document.activeElement);
    this.list.replaceChildren();
    this.#buttons();
    if (lost) this.start.focus();
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
    clearTimeout(this.#over);
    this.#over = null;
    this.#buttons();
  }

  #buttons() {
    const open = this.#receiver !== null;
    // One that is being opened is not yet there: the button may be pressed, and nothing comes of it.
    enable([this.start, !open], [this.more, open], [this.back, open], [this.settle, open]);
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
