/**
 * A client of Penstock's native protocol for pages, over WebSocket. docs/protocol.md is what it speaks. It needs native_wire.js beside it.
 *
 *     import { openReceiver, openSender } from "./native.js";
 *
 *     const sender = await openSender({ queue: "orders" });
 *     await sender.send(["tea", { payload: "coffee", headers: { table: "7" } }]);      // settles when they are stored
 *     await sender.close();
 *
 *     const receiver = await openReceiver({ queue: "orders", onMessage: (message) => show(message.text()) });
 *     receiver.request(10);                    // ten more may come, and no more than that
 *     receiver.acknowledge(message, another);  // they are done, and gone
 *     await receiver.close();                  // what is not acknowledged comes again, to whoever receives next
 *
 * Both are opened with these options:
 *   queue      its name; it is made where there is none
 *   existing   true: the queue has to be there
 *   token      proves who this is, where the broker has users and the page is not known by itself
 *   clientId   the name in statistics; a sender makes one up
 *   url        of the broker's /ws; the page's own broker unless told
 *   onEnd      called once when the connection is over, with a NativeError, or null where close() was called
 * They have:
 *   welcome    what the broker said of itself: a Map of WELCOME's options
 *   ended      a promise, of what onEnd is told
 *   why()      a promise of {reason, text}: what the queue has this one wait for
 *   close()    a promise; settles when the connection is over
 *
 * A sender sends what the queue has asked for and keeps the rest, at most `limit` messages (10,000) and 16 MiB of them.
 *   send(messages, {delay, ttl})  one or several of: a string, bytes, {payload, key, headers, id}; times in milliseconds. A promise of the
 *                                 numbers that they have in the queue (null: the broker had it before). It fails with a NativeError:
 *                                 `limit` too much waits, `rejected` the queue is full and does not wait, or what ended the connection. After
 *                                 that last one a message may be stored or not.
 *   demand                        {messages, bytes} that the queue has asked for and were not sent
 *   waiting                       messages that wait for demand
 *   onDemand                      an option: called when demand or waiting has changed
 *
 * A receiver is sent what it asks for, and holds what it has not acknowledged.
 *   request(n)                     so many messages more, behind those asked for before
 *   acknowledge(...messages)       they are done
 *   giveBack(messages, {delay, failed, reason})  they come again, after `delay` ms; `failed` (true unless told) counts against them;
 *                                  with `reason` they become dead letters where the queue keeps such
 *   extend(messages, ms)           hold them for so long from now
 *   held                           a Map of messages by number: not answered yet
 *   wanted                         messages asked for that have not come
 *   bytes                          an option: bytes held at most (4 MiB), but one message in any case
 *   onMessage                      an option: called with each message: {number, payload (bytes), text(), key, headers (a Map), id,
 *                                  deliveries, replayed, enqueued (a Date)}
 */

import { FrameDecoder, MAX_BODY, MAX_FRAME, NOTHING, NativeError, frame, pack, packBatch, text, unpack, unpackBatch, utf8 } from "./native_wire.js";

export { NativeError };
export const SUBPROTOCOL = "penstock.1";
const VERSION = 1;
const MAX_RANGES = 200;
/** Of a batch that is made here: a batch is what the broker handles at once. */
const BATCH_MESSAGES = 1000;
const BATCH_BYTES = 256 * 1024;
/** For the handshake, and for the end of a connection. */
const OPEN_MS = 10000;
const CLOSE_MS = 5000;
const SILENT_HEARTBEATS = 3;

const HELLO = 1, WELCOME = 2, ERROR = 3, PING = 4, PONG = 5, WHY = 7, BECAUSE = 8;
const DEMAND = 16, SEND = 17, SENT = 18;
const REQUEST = 32, DELIVER = 33, ACK = 34, NACK = 35, EXTEND = 36, CANCEL = 37;

// --- a connection

class Connection {
  #socket;
  #decoder = new FrameDecoder();
  #heartbeat = 5000;
  #heard = performance.now();
  #said = performance.now();
  #timer = null;
  #closing = false;
  #end;
  #why = new Map();
  #asked = 0;

  /** Resolves when the broker has said WELCOME. */
  static async open(kind, role, options) {
    const { queue, existing = false, token = null, clientId = null, url = null, more = {} } = options;
    const connection = new kind(options);
    const hello = { ...more };
    if (token !== null) hello.token = token;
    if (existing) hello.existing_queue = queue;
    await connection.#connect(url ?? ownUrl(), [HELLO, VERSION, role, existing ? null : queue, clientId, hello]);
    return connection;
  }

  constructor(options) {
    this.welcome = new Map();
    this.ended = new Promise((resolve) => (this.#end = resolve));
    this.isOver = false;
    if (options.onEnd) this.ended.then(options.onEnd);
  }

  #connect(url, hello) {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => this.#over(new NativeError("timeout", `no WELCOME within ${OPEN_MS} ms`)), OPEN_MS);
      this.ended.then((error) => {
        clearTimeout(late);
        reject(error ?? new NativeError("connection-lost", "closed before it was open"));
      });
      this.opened = (header) => {
        clearTimeout(late);
        this.welcome = header[3];
        this.#heartbeat = this.welcome.get("heartbeat_ms") ?? this.#heartbeat;
        this.#timer = setInterval(() => this.#beat(), this.#heartbeat / 2);
        this.begin();
        resolve();
      };
      this.#socket = new WebSocket(url, SUBPROTOCOL);
      this.#socket.binaryType = "arraybuffer";
      this.#socket.onopen = () => this.say(hello);
      this.#socket.onmessage = (event) => this.#received(event.data);
      this.#socket.onclose = (event) =>
        this.#over(this.#closing ? null : new NativeError("connection-lost", `the socket was closed (${event.code})`));
    });
  }

  #received(data) {
    this.#heard = performance.now();
    try {
      if (typeof data === "string") throw new NativeError("protocol-error", "a text message came");
      for (const [header, body] of this.#decoder.feed(new Uint8Array(data))) {
        if (this.isOver) return;
        this.#handle(header, body);
      }
    } catch (error) {
      this.#over(error instanceof NativeError ? error : new NativeError("internal-error", String(error)));
    }
    // A page in the background has no timers to count on.
    this.#beat();
  }

  #handle(header, body) {
    const [kind] = header;
    if (kind === PING) this.say([PONG, header[1]]);
    else if (kind === PONG) return;
    else if (kind === ERROR) {
      const error = new NativeError(header[1], header[2]);
      if (header[3]) this.#over(error);
    } else if (kind === WELCOME) this.opened(header);
    else if (kind === BECAUSE) {
      this.#why.get(header[1])?.({ reason: header[2], text: header[3] });
      this.#why.delete(header[1]);
    } else this.received(header, body);
  }

  /** Say that this side is there, or see that the other is not. */
  #beat() {
    if (this.#timer === null) return;
    const now = performance.now();
    if (now - this.#heard > SILENT_HEARTBEATS * this.#heartbeat) {
      this.#over(new NativeError("timeout", "the broker is silent"));
    } else if (now - this.#said >= this.#heartbeat / 2) this.say([PING, 0]);
  }

  #over(error) {
    if (this.isOver) return;
    this.isOver = true;
    clearInterval(this.#timer);
    this.#timer = null;
    if (this.#socket) {
      this.#socket.onmessage = null;
      this.#socket.close();
    }
    const why = error ?? new NativeError("connection-lost", "the connection was closed");
    for (const answer of this.#why.values()) answer({ reason: null, text: why.message });
    this.#why.clear();
    this.lost(why);
    this.#end(error);
  }

  say(header, body) {
    if (this.isOver || this.#socket.readyState !== WebSocket.OPEN) return;
    this.#said = performance.now();
    this.#socket.send(frame(header, body));
  }

  why() {
    if (this.isOver) return Promise.reject(new NativeError("connection-lost", "the connection is over"));
    const request = this.#asked++;
    return new Promise((resolve) => {
      this.#why.set(request, resolve);
      this.say([WHY, request]);
    });
  }

  /** End it: `last` is the last frame, if any, behind which the broker closes. */
  async end(last = null) {
    this.#closing = true;
    if (last) this.say(last);
    else this.#socket.close(1000);
    const late = setTimeout(() => this.#over(null), CLOSE_MS);
    await this.ended;
    clearTimeout(late);
  }
}

function ownUrl() {
  const url = new URL("/ws", window.location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return url.href;
}

const bytesOf = (value) =>
  value === null || value === undefined ? NOTHING
    : typeof value === "string" ? utf8.encode(value)
      : value instanceof ArrayBuffer ? new Uint8Array(value)
        : ArrayBuffer.isView(value) ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
          : (() => { throw new TypeError("a message is a string, bytes, or an object with a payload"); })();

// --- sending

/** Opens a sender; options and methods are said at the top. */
export function openSender(options) {
  const clientId = options.clientId ?? `page-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
  const more = { temporary: options.clientId === undefined };
  return Connection.open(Sender, "sender", { ...options, clientId, more });
}

class Sender extends Connection {
  #limit;
  #onDemand;
  #waiting = [];
  #waitingBytes = 0;
  #sent = [];
  #next = 0;
  #granted = [0, 0];
  #used = [0, 0];
  /** The number of the first message that was rejected, until all that is under way is answered. */
  #again = null;

  constructor(options) {
    super(options);
    this.#limit = options.limit ?? 10000;
    this.#onDemand = options.onDemand ?? (() => {});
  }

  get demand() {
    return { messages: this.#granted[0] - this.#used[0], bytes: Math.max(0, this.#granted[1] - this.#used[1]) };
  }

  get waiting() {
    return this.#waiting.length;
  }

  send(messages, { delay = null, ttl = null } = {}) {
    const given = (Array.isArray(messages) ? messages : [messages]).map(outgoing);
    const bytes = given.reduce((size, each) => size + each.size, 0);
    if (this.isOver) return Promise.reject(new NativeError("connection-lost", "the connection is over"));
    if (given.some((each) => each.size > MAX_BODY)) return Promise.reject(new NativeError("frame-too-large", "a message is too large"));
    if (this.#waiting.length + given.length > this.#limit || (this.#waitingBytes && this.#waitingBytes + bytes > MAX_FRAME)) {
      return Promise.reject(new NativeError("limit", `${this.#waiting.length} messages wait for the queue's demand`));
    }
    const properties = {};
    if (delay !== null) properties.delay_ms = delay;
    if (ttl !== null) properties.ttl_ms = ttl;
    const known = Object.keys(properties).length ? properties : null;
    const stored = given.map((each) => new Promise((resolve, reject) => this.#waiting.push({ ...each, properties: known, resolve, reject })));
    this.#waitingBytes += bytes;
    this.#go();
    return Promise.all(stored);
  }

  /** Close when everything is answered. */
  async close() {
    while (!this.isOver && (this.#waiting.length || this.#sent.length)) {
      await Promise.race([this.ended, new Promise((resolve) => (this.emptied = resolve))]);
    }
    await this.end();
  }

  begin() {
    this.#next = this.welcome.get("last_sequence") ?? 0;
  }

  received([kind, ...fields]) {
    if (kind === DEMAND) this.#granted = [Math.max(this.#granted[0], fields[0]), Math.max(this.#granted[1], fields[1])];
    else if (kind === SENT) this.#answered(...fields);
    else throw new NativeError("protocol-error", `a frame of type ${kind} came to a sender`);
    this.#go();
  }

  lost(error) {
    const open = [...this.#sent.flatMap((each) => each.messages), ...this.#waiting];
    this.#sent = [];
    this.#waiting = [];
    this.#waitingBytes = 0;
    for (const each of open) each.reject(error);
  }

  #answered(upTo, first, rejected) {
    const batch = this.#sent.shift();
    if (!batch || batch.upTo !== upTo) throw new NativeError("protocol-error", `SENT up to ${upTo} answers nothing that was sent`);
    if (rejected !== null) this.#again = Math.min(this.#again ?? batch.first, batch.first);
    batch.messages.forEach((each, index) => {
      if (rejected !== null) each.reject(new NativeError("rejected", rejected));
      else each.resolve(first === null ? null : first + index);
    });
    if (!this.#sent.length) {
      if (this.#again !== null) [this.#next, this.#again] = [this.#again, null];
      if (!this.#waiting.length) this.emptied?.();
    }
  }

  /** Send what the queue has asked for. */
  #go() {
    while (this.#waiting.length && this.#again === null) {
      const { messages, bytes } = this.demand;
      const [{ properties }] = this.#waiting;
      const batch = [];
      let size = 0;
      for (const each of this.#waiting) {
        const fits = !size || size + each.size + 16 <= BATCH_BYTES;
        if (batch.length >= Math.min(messages, BATCH_MESSAGES) || size >= bytes || !fits || each.properties !== properties) break;
        batch.push(each);
        size += each.size + 16;
      }
      if (!batch.length) break;
      this.#waiting.splice(0, batch.length);
      for (const each of batch) this.#waitingBytes -= each.size;
      const { fields, parts } = packBatch(batch);
      const body = parts.reduce((sum, part) => sum + part.length, 0);
      this.#sent.push({ first: this.#next, upTo: this.#next + batch.length, messages: batch });
      this.say([SEND, this.#next, properties, ...fields], parts);
      this.#next += batch.length;
      this.#used = [this.#used[0] + batch.length, this.#used[1] + body];
    }
    this.#onDemand();
  }
}

function outgoing(message) {
  const given = typeof message === "object" && message !== null && "payload" in message ? message : { payload: message };
  const headers = given.headers && Object.keys(given.headers).length ? pack(given.headers) : NOTHING;
  const [payload, key] = [bytesOf(given.payload), bytesOf(given.key)];
  const id = given.id ? bytesOf(given.id) : null;
  if (id !== null && id.length !== 16) throw new TypeError("an id has 16 bytes");
  // With the share of every column that it may have: a batch takes no more than this.
  return { payload, key, headers, id, size: payload.length + key.length + headers.length + 32 };
}

// --- receiving

/** Opens a receiver; options and methods are said at the top. */
export function openReceiver(options) {
  return Connection.open(Receiver, "receiver", options);
}

class Receiver extends Connection {
  #onMessage;
  #window;
  #requested = [0, 0];
  #settled = 0;
  #delivered = 0;
  #done = [];
  #prefix = NOTHING;

  constructor(options) {
    super(options);
    this.#onMessage = options.onMessage ?? (() => {});
    this.#window = options.bytes ?? 4 * 1024 * 1024;
    this.held = new Map();
  }

  get wanted() {
    return this.#requested[0] - this.#delivered;
  }

  request(messages) {
    this.#requested[0] += messages;
    this.#ask();
  }

  acknowledge(...messages) {
    for (const message of messages) {
      if (this.#settle(message)) this.#done.push(message.number);
    }
    // What is acknowledged in one go is said in one frame.
    if (this.#done.length) queueMicrotask(() => this.#acknowledge());
  }

  giveBack(messages, { delay = 0, failed = true, reason = null } = {}) {
    const numbers = messages.filter((each) => this.#settle(each)).map((each) => each.number);
    for (const ranges of rangesOf(numbers)) this.say([NACK, ranges, delay, failed, reason]);
    this.#ask();
  }

  extend(messages, ms) {
    for (const ranges of rangesOf(messages.filter((each) => this.held.has(each.number)).map((each) => each.number))) {
      this.say([EXTEND, ranges, ms]);
    }
  }

  /** Everything that is not acknowledged goes back, and is not counted as a failure. */
  async close() {
    this.#acknowledge();
    if (this.#requested[0]) this.say([REQUEST, 0, 0]);
    await this.end([CANCEL, false]);
  }

  begin() {
    this.#prefix = this.welcome.get("id_prefix") ?? NOTHING;
  }

  received([kind, first, enqueued, deliveries, replayed, ...described], body) {
    if (kind !== DELIVER) throw new NativeError("protocol-error", `a frame of type ${kind} came to a receiver`);
    const { payloads, ids, keys, headers } = unpackBatch(described, body);
    this.#delivered += payloads.length;
    const share = body.length / payloads.length;
    payloads.forEach((payload, index) => {
      const number = first + index;
      const message = {
        number, payload, deliveries, replayed, share,
        enqueued: new Date(enqueued / 1000),
        id: ids ? ids[index] : this.#idOf(number),
        key: keys && keys[index].length ? keys[index] : null,
        headers: headersOf(headers && headers[index]),
        text: () => text.decode(payload),
      };
      // One that comes again takes the place of its earlier delivery, whose time was over.
      this.#settle(this.held.get(number));
      this.held.set(number, message);
      this.#onMessage(message);
    });
  }

  lost() {
    this.held.clear();
  }

  #settle(message) {
    if (!message || this.held.get(message.number) !== message) return false;
    this.held.delete(message.number);
    this.#settled += message.share;
    return true;
  }

  #acknowledge() {
    const numbers = this.#done;
    this.#done = [];
    for (const ranges of rangesOf(numbers)) this.say([ACK, ranges]);
    if (numbers.length) this.#ask();
  }

  /** Say what may come: as many messages as were asked for, and as many bytes as may be held. */
  #ask() {
    if (!this.#requested[0]) return;
    const bytes = Math.max(this.#requested[1], Math.floor(this.#settled) + this.#window);
    this.#requested[1] = bytes;
    this.say([REQUEST, this.#requested[0], bytes]);
  }

  #idOf(number) {
    const id = new Uint8Array(16);
    id.set(this.#prefix);
    new DataView(id.buffer).setBigUint64(8, BigInt(number));
    return id;
  }
}

/** A message's headers; one that has none of the form that they are to have has none. */
function headersOf(packed) {
  if (!packed || !packed.length) return new Map();
  try {
    const headers = unpack(packed);
    return headers instanceof Map ? headers : new Map();
  } catch {
    return new Map();
  }
}

/** Numbers as [first, count, first, count, ...], in arrays that fit a frame each. */
export function rangesOf(numbers) {
  const sorted = [...numbers].sort((one, other) => one - other);
  const flat = [];
  for (const number of sorted) {
    if (flat.length && flat.at(-2) + flat.at(-1) === number) flat[flat.length - 1]++;
    else flat.push(number, 1);
  }
  const frames = [];
  for (let at = 0; at < flat.length; at += 2 * MAX_RANGES) frames.push(flat.slice(at, at + 2 * MAX_RANGES));
  return frames;
}
