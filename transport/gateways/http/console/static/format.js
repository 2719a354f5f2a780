// Figures as people read them: as the command line writes them (transport/cli/_written.py), so that both say the same.

const SIZE_UNITS = ["KiB", "MiB", "GiB", "TiB"];
/** Seconds each, the longest first. */
const TIME_UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
/** Below this a figure with a unit has one decimal, for there the next whole number is far away. */
const EXACT_BELOW = 10;

/** So many decimals, with thousands apart. Of two that are as near the even one is taken, as Python does. */
function fixed(value, decimals) {
  const step = 10 ** decimals;
  // What lies halfway is so exactly: both products are then without an error.
  const halfway = (value * 2 ** (decimals + 1)) % 1 === 0 && (value * step) % 1 === 0.5;
  const even = halfway && Math.floor(value * step) % 2 === 0 ? Math.floor(value * step) / step : value;
  const [whole, ...rest] = even.toFixed(decimals).split(".");
  return [whole.replace(/\B(?=(\d{3})+$)/g, ","), ...rest].join(".");
}

/** With one decimal where that tells something: 1.5, 64, 250. */
const decimal = (value) => fixed(value, 1).replace(/\.0$/, "");

/** A whole number with its thousands apart: 12,345. */
export const count = (value) => fixed(value ?? 0, 0);

/** How full a queue is by the limit that it is nearer to, 1 at it; 0 where it has none. */
export function shareOf(row) {
  const of = (stored, most) => (most === null ? 0 : stored / most);
  return Math.max(of(row.stored_messages, row.max_messages), of(row.stored_bytes, row.max_bytes));
}

/** The number that somebody has typed, with its thousands apart or not; null where it is no whole number. */
export const typedCount = (text) => (/^\d+$/.test(text.replaceAll(",", "")) ? Number(text.replaceAll(",", "")) : null);

/** Messages a second: 12,345, 2.5, 0.01. */
export function rate(value) {
  const number = value ?? 0;
  if (number === 0) return "0";
  if (number < 0.1) return number >= 0.005 ? fixed(number, 2) : "<0.01";
  return number < EXACT_BELOW ? decimal(number) : fixed(number, 0);
}

/** Bytes in the largest unit of 1,024 that they fill: 512 B, 1.5 MiB. */
export function bytes(value) {
  const number = value ?? 0;
  // What would round up to 1,024.0 of a unit is 1.0 of the next.
  let power = SIZE_UNITS.length;
  while (power > 1 && number < 1024 ** power * (1 - 0.05 / 1024)) power -= 1;
  return number < 1024 ? `${decimal(number)} B` : `${decimal(number / 1024 ** power)} ${SIZE_UNITS[power - 1]}`;
}

/** A time of so many seconds in its two largest units, or below ten seconds with one decimal: 350 ms, 1.5 s, 2 h 5 min, 3 d 4 h. */
export function duration(seconds) {
  const number = seconds ?? 0;
  if (number < 0) return `-${duration(-number)}`;
  if (number * 1000 < 999.5) return number ? `${decimal(number * 1000)} ms` : "0 s";
  if (number < EXACT_BELOW - 0.05) return `${decimal(number)} s`;
  const whole = Number(fixed(number, 0).replaceAll(",", ""));
  const at = TIME_UNITS.findIndex(([, factor]) => whole >= factor);
  const [unit, factor] = TIME_UNITS[at];
  const [less, divisor] = TIME_UNITS[at + 1] ?? ["", factor];
  const rest = Math.floor((whole % factor) / divisor);
  return `${count(Math.floor(whole / factor))} ${unit}${rest ? ` ${rest} ${less}` : ""}`;
}

/** A time of day, of microseconds since 1970. */
export const moment = (micros) => (micros ? new Date(micros / 1000).toLocaleString("en-GB") : "unknown");

/** A class for a kind of pressure. */
export const kindClass = (kind) => (kind ?? "idle").replaceAll(" ", "-");

/** Bytes as text, where they are one; otherwise sixteen a line in hex, with the text beside. `more` tells that these are but the first. */
export function shown(data, asHex, more = false) {
  if (!asHex) {
    const text = textOf(data, more);
    if (text !== null) return text;
  }
  const lines = [];
  for (let start = 0; start < data.length; start += 16) {
    const some = [...data.subarray(start, start + 16)];
    const hex = some.map((each) => each.toString(16).padStart(2, "0")).join(" ");
    const text = some.map((each) => (each > 31 && each < 127 ? String.fromCharCode(each) : ".")).join("");
    lines.push(`${start.toString(16).padStart(6, "0")}  ${hex.padEnd(47)}  ${text}`);
  }
  return lines.join("\n");
}

/**
 * The text that bytes are; null where they are none, or have characters that are not to be seen. Where `more` are to follow, the last
 * character need not be whole.
 */
export function textOf(data, more = false) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(data, { stream: more });
    // Controls, and what turns the direction of writing around.
    return /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/.test(text) ? null : text;
  } catch {
    return null;
  }
}

/** Bytes of base64. */
export const unpacked = (base64) => Uint8Array.from(atob(base64 ?? ""), (each) => each.charCodeAt(0));

/** Base64 of bytes: of so many at a time as a function may have arguments. */
export function packed(data) {
  let text = "";
  for (let start = 0; start < data.length; start += 8192) text += String.fromCharCode(...data.subarray(start, start + 8192));
  return btoa(text);
}
