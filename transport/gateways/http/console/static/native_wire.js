/**
 * The bytes of Penstock's native protocol: msgpack, frames and batches, as docs/protocol.md has them. native.js speaks with them.
 */

export const MAX_FRAME = 16 * 1024 * 1024;
export const MAX_BODY = 16773056;
const MAX_HEADER = 4096;
const MAX_DEPTH = 8;

export const utf8 = new TextEncoder();
export const text = new TextDecoder();

/** What a broker refuses, or what ends a connection; `code` is one of docs/protocol.md, or `connection-lost`, `limit`, `rejected`. */
export class NativeError extends Error {
  constructor(code, detail) {
    super(`${code}: ${detail}`);
    this.name = "NativeError";
    this.code = code;
    this.detail = detail;
  }
}

// --- msgpack, as far as headers of frames and messages have it

/** The bytes of null, booleans, whole numbers, strings, bytes, arrays, and maps or objects. */
export function pack(value) {
  const parts = [];
  packInto(parts, value);
  return join(parts);
}

function packInto(parts, value) {
  if (value === null || value === undefined) parts.push(Uint8Array.of(0xc0));
  else if (typeof value === "boolean") parts.push(Uint8Array.of(value ? 0xc3 : 0xc2));
  else if (typeof value === "number" || typeof value === "bigint") parts.push(packNumber(value));
  else if (typeof value === "string") {
    const bytes = utf8.encode(value);
    parts.push(sized(bytes.length, 0xa0, 32, 0xd9, 0xda, 0xdb), bytes);
  } else if (value instanceof Uint8Array) {
    parts.push(sized(value.length, 0, 0, 0xc4, 0xc5, 0xc6), value);
  } else if (Array.isArray(value)) {
    parts.push(sized(value.length, 0x90, 16, null, 0xdc, 0xdd));
    for (const each of value) packInto(parts, each);
  } else if (typeof value === "object") {
    const entries = value instanceof Map ? [...value] : Object.entries(value);
    parts.push(sized(entries.length, 0x80, 16, null, 0xde, 0xdf));
    for (const [name, each] of entries) {
      packInto(parts, name);
      packInto(parts, each);
    }
  } else throw new TypeError(`${typeof value} cannot be packed`);
}

function packNumber(value) {
  if (typeof value === "number" && !Number.isSafeInteger(value)) throw new TypeError(`${value} is no whole number`);
  if (value < 0) throw new TypeError(`${value} is below zero`);
  if (value < 0x80) return Uint8Array.of(Number(value));
  const [size, kind] = value < 0x100 ? [1, 0xcc] : value < 0x10000 ? [2, 0xcd] : value < 0x100000000 ? [4, 0xce] : [8, 0xcf];
  const bytes = new Uint8Array(1 + size);
  bytes[0] = kind;
  const view = new DataView(bytes.buffer);
  if (size === 8) view.setBigUint64(1, BigInt(value));
  else if (size === 4) view.setUint32(1, Number(value));
  else if (size === 2) view.setUint16(1, Number(value));
  else bytes[1] = Number(value);
  return bytes;
}

function sized(length, fixed, most, one, two, four) {
  if (length < most) return Uint8Array.of(fixed | length);
  if (one !== null && length < 0x100) return Uint8Array.of(one, length);
  if (length < 0x10000) return Uint8Array.of(two, length >> 8, length & 0xff);
  return Uint8Array.of(four, length >>> 24, (length >> 16) & 0xff, (length >> 8) & 0xff, length & 0xff);
}

/** The value that bytes stand for. Maps are Maps; numbers above 2^53 are BigInts. */
export function unpack(bytes) {
  const reader = { bytes, view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), at: 0 };
  const value = unpackNext(reader, 0);
  if (reader.at !== bytes.length) throw new NativeError("protocol-error", "msgpack with more behind it");
  return value;
}

function unpackNext(reader, depth) {
  if (depth > MAX_DEPTH) throw new NativeError("protocol-error", "msgpack that nests too deep");
  const kind = take(reader, 1)[0];
  if (kind < 0x80) return kind;
  if (kind >= 0xe0) return kind - 0x100;
  if (kind < 0x90) return unpackMap(reader, kind & 0x0f, depth);
  if (kind < 0xa0) return unpackArray(reader, kind & 0x0f, depth);
  if (kind < 0xc0) return text.decode(take(reader, kind & 0x1f));
  switch (kind) {
    case 0xc0: return null;
    case 0xc2: return false;
    case 0xc3: return true;
    case 0xc4: case 0xc5: case 0xc6: return take(reader, unsigned(reader, 1 << (kind - 0xc4))).slice();
    case 0xcc: case 0xcd: case 0xce: case 0xcf: return unsigned(reader, 1 << (kind - 0xcc));
    case 0xd9: case 0xda: case 0xdb: return text.decode(take(reader, unsigned(reader, 1 << (kind - 0xd9))));
    case 0xdc: case 0xdd: return unpackArray(reader, unsigned(reader, 2 << (kind - 0xdc)), depth);
    case 0xde: case 0xdf: return unpackMap(reader, unsigned(reader, 2 << (kind - 0xde)), depth);
  }
  throw new NativeError("protocol-error", `msgpack of the kind ${kind}`);
}

function unpackArray(reader, size, depth) {
  const values = [];
  for (let index = 0; index < size; index++) values.push(unpackNext(reader, depth + 1));
  return values;
}

function unpackMap(reader, size, depth) {
  const values = new Map();
  for (let index = 0; index < size; index++) values.set(unpackNext(reader, depth + 1), unpackNext(reader, depth + 1));
  return values;
}

function unsigned(reader, size) {
  const at = reader.at;
  take(reader, size);
  if (size === 1) return reader.view.getUint8(at);
  if (size === 2) return reader.view.getUint16(at);
  if (size === 4) return reader.view.getUint32(at);
  const value = reader.view.getBigUint64(at);
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value;
}

function take(reader, size) {
  if (reader.at + size > reader.bytes.length) throw new NativeError("protocol-error", "msgpack that ends too soon");
  reader.at += size;
  return reader.bytes.subarray(reader.at - size, reader.at);
}

function join(parts) {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

// --- frames and batches

/** The bytes of a frame: its header, an array, and its body, in parts. */
export function frame(header, body = []) {
  const packed = pack(header);
  if (packed.length > MAX_HEADER) throw new NativeError("protocol-error", `a header of ${packed.length} bytes`);
  const prefix = new Uint8Array(6);
  const view = new DataView(prefix.buffer);
  view.setUint32(0, 6 + packed.length + body.reduce((size, part) => size + part.length, 0));
  view.setUint16(4, packed.length);
  return join([prefix, packed, ...body]);
}

/** Cuts a stream, which comes in any pieces, into frames: [header, body]. */
export class FrameDecoder {
  #parts = [];
  #size = 0;

  /** Take the next piece, and give the frames that are complete now. */
  *feed(piece) {
    this.#parts.push(piece);
    this.#size += piece.length;
    while (this.#size >= 6) {
      const start = this.#first(6);
      const length = start.getUint32(0);
      const headerLength = start.getUint16(4);
      if (length < 7 || length > MAX_FRAME || 6 + headerLength > length) {
        throw new NativeError("protocol-error", `a frame of ${length} bytes with a header of ${headerLength}`);
      }
      if (this.#size < length) return;
      const whole = this.#parts.length > 1 ? join(this.#parts) : this.#parts[0];
      this.#parts = whole.length > length ? [whole.subarray(length)] : [];
      this.#size -= length;
      yield [unpack(whole.subarray(6, 6 + headerLength)), whole.subarray(6 + headerLength, length)];
    }
  }

  #first(size) {
    if (this.#parts[0].length < size) this.#parts = [join(this.#parts)];
    const first = this.#parts[0];
    return new DataView(first.buffer, first.byteOffset, size);
  }
}

function column(values) {
  const offsets = new DataView(new ArrayBuffer(4 * (values.length + 1)));
  let end = 0;
  values.forEach((value, index) => offsets.setInt32(4 * (index + 1), (end += value.length), true));
  return { size: end, parts: [new Uint8Array(offsets.buffer), ...values] };
}

export const NOTHING = new Uint8Array(0);

/** The five fields that describe a batch, and the parts of its body. */
export function packBatch(messages) {
  const data = column(messages.map((each) => each.payload));
  const hasIds = messages.some((each) => each.id !== null);
  const ids = hasIds ? messages.map((each) => each.id ?? new Uint8Array(16)) : [];
  const rest = ["key", "headers"].map((name) =>
    messages.some((each) => each[name].length) ? column(messages.map((each) => each[name])) : { size: null, parts: [] });
  return {
    fields: [messages.length, data.size, hasIds, rest[0].size, rest[1].size],
    parts: [...data.parts, ...ids, ...rest[0].parts, ...rest[1].parts],
  };
}

/** The columns of a batch: payloads, ids, keys and headers, each an array of bytes or null. */
export function unpackBatch([count, dataBytes, hasIds, keysBytes, headersBytes], body) {
  let at = 0;
  const next = (size) => {
    if (at + size > body.length) throw new NativeError("protocol-error", "a batch that is longer than its frame");
    at += size;
    return body.subarray(at - size, at);
  };
  const values = (size) => {
    if (size === null) return null;
    const offsets = next(4 * (count + 1));
    const view = new DataView(offsets.buffer, offsets.byteOffset, offsets.length);
    const data = next(size);
    const first = view.getInt32(0, true);
    return Array.from({ length: count }, (_, index) =>
      data.subarray(view.getInt32(4 * index, true) - first, view.getInt32(4 * index + 4, true) - first));
  };
  const payloads = values(dataBytes);
  const ids = hasIds ? Array.from({ length: count }, () => next(16)) : null;
  return { payloads, ids, keys: values(keysBytes), headers: values(headersBytes) };
}
