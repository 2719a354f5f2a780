// Messages of a queue, looked at: nothing comes of it. What a payload is, it is shown as, and never as a page.

import { ask as request, path } from "./api.js";
import { button, enable, field, h, trying } from "./dom.js";
import { bytes, count, duration, moment, packed, shown, textOf, typedCount, unpacked } from "./format.js";

const PAGE = 20;
/** Bytes of a payload that are asked for, and shown. */
const SHOWN_BYTES = 8192;
/** Characters of a key or of a header that are shown; of more headers their number is. */
const SHOWN_LETTERS = 1024;
const MOST_HEADERS = 64;

/** What there is of a text that may be long; and of bytes, which are shown in base64. */
function beginning(value) {
  if (value instanceof Uint8Array) {
    const some = value.subarray(0, (SHOWN_LETTERS / 4) * 3);
    return `base64 ${packed(some)}${rest(value.length - some.length, "bytes")}`;
  }
  const text = typeof value === "string" ? value : value && "base64" in Object(value) ? `base64 ${value.base64}` : String(value);
  return text.slice(0, SHOWN_LETTERS) + rest(text.length - SHOWN_LETTERS, "characters");
}

const rest = (left, what) => (left > 0 ? ` … ${count(left)} ${what} more` : "");

/** One message as it is shown; `facts` has number, payload as bytes, and what else is known; `actions` are buttons. */
export function messageItem(facts, actions = []) {
  const { number, size = facts.payload.length } = facts;
  const payload = facts.payload.subarray(0, SHOWN_BYTES);
  const isText = textOf(payload, size > payload.length) !== null;
  let hex = !isText;
  const body = h("pre", { tabindex: "0", "aria-label": `Payload of message ${number}` });
  const show = () => {
    body.className = hex ? "payload hex" : "payload";
    body.textContent = shown(payload, hex, size > payload.length) + (size > payload.length ? `\n… ${count(size - payload.length)} bytes more` : "");
    if (!size) body.textContent = "(empty)";
    toggle.textContent = hex ? "Text" : "Hex";
    toggle.setAttribute("aria-label", `${toggle.textContent} of message ${number}`);
  };
  const toggle = button("Hex", () => {
    hex = !hex;
    show();
  }, { class: "small", disabled: !isText });
  show();
  const about = [
    h("strong", {}, `No. ${count(number)}`), h("span", {}, bytes(size)),
    facts.age === undefined ? null : h("span", { title: moment(facts.enqueued) }, `${duration(facts.age)} old`),
    facts.deliveries ? h("span", {}, `delivered ${count(facts.deliveries)} ${facts.deliveries === 1 ? "time" : "times"}`) : null,
    facts.replayed ? h("span", {}, "perhaps delivered before") : null,
    facts.key ? h("span", {}, `key ${beginning(textOf(facts.key) ?? facts.key)}`) : null,
    h("span", { class: "end" }, toggle, actions),
  ];
  const named = Object.entries(facts.headers ?? {});
  const headers = named.slice(0, MOST_HEADERS).map(([name, value]) => h("span", { class: "mono" }, `${beginning(name)}: ${beginning(value)}`));
  if (named.length > MOST_HEADERS) headers.push(h("span", {}, `… ${count(named.length - MOST_HEADERS)} headers more`));
  return h("li", {}, h("div", { class: "message-head" }, about), headers.length ? h("div", { class: "headers" }, headers) : null, body);
}

/** What a peek tells of a message, as `messageItem` takes it. */
export function peeked(row) {
  return {
    number: row.number, size: row.size, payload: unpacked(row.payload), age: row.age_ms / 1000, enqueued: row.enqueued_us,
    deliveries: row.deliveries, replayed: row.replayed, key: row.key ? unpacked(row.key) : null, headers: row.headers,
  };
}

/** Ask for messages without taking them. */
export const peek = (queue, asked) => request("GET", path("queues", queue, "browse"), undefined, { bytes: SHOWN_BYTES, ...asked });

export class Messages {
  constructor(queue) {
    this.queue = queue;
    this.from = h("input", { type: "text", inputmode: "numeric", autocomplete: "off", size: 12, placeholder: "oldest" });
    this.list = h("ol", { class: "messages" });
    this.where = h("span", { role: "status" });
    this.next = button("Next", () => this.#show({ start: this.following }), { disabled: true });
    this.oldest = button("The oldest", () => this.#show({}));
    this.element = h("section", { class: "panel", "aria-label": "Messages" },
      h("form", { class: "bar", onsubmit: (event) => { event.preventDefault(); this.#from(); } },
        field("From number", this.from), h("button", { type: "submit" }, "Look"),
        this.oldest, button("The newest", () => this.#show({ newest: true }))),
      h("p", { class: "muted" }, "Looking changes nothing: the messages stay where they are, and go to their receivers."),
      this.list, h("div", { class: "pages" }, this.next, this.where));
    this.#show({});
  }

  /** From the number that was typed, which may have its thousands apart as those have that are shown. */
  #from() {
    const typed = this.from.value.trim();
    return this.#show(typed ? { start: typedCount(typed) ?? typed } : {});
  }

  #show(asked) {
    return trying(async () => {
      const found = await peek(this.queue, { count: PAGE, ...asked });
      this.following = found.next;
      enable([this.next, found.next !== null && asked.newest !== true], [this.oldest, true]);
      this.list.replaceChildren(...found.messages.map((row) => messageItem(peeked(row))));
      const { length } = found.messages;
      this.where.textContent = length ? `${length} messages, number ${count(found.messages[0].number)} to ${count(found.messages[length - 1].number)}`
        : "No message is stored there.";
    });
  }

  close() {}
}
