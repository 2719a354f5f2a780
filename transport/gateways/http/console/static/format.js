// Figures as people read them; each is as short as its meaning allows.

const WHOLE = new Intl.NumberFormat("en");
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** A whole number with its thousands apart. */
export const whole = (value) => WHOLE.format(value ?? 0);

/** A whole number that may be large: 1,234 and 12.3 M. */
export function count(value) {
  const number = value ?? 0;
  if (number < 1e6) return WHOLE.format(number);
  return number < 1e9 ? `${(number / 1e6).toFixed(1)} M` : `${(number / 1e9).toFixed(1)} G`;
}

/** Messages a second. */
export function rate(value) {
  const number = value ?? 0;
  if (number === 0) return "0";
  if (number < 10) return number.toFixed(1);
  return count(Math.round(number));
}

/** Bytes, in units of 1,024. */
export function bytes(value) {
  let number = value ?? 0;
  let unit = 0;
  while (number >= 1024 && unit < UNITS.length - 1) {
    number /= 1024;
    unit += 1;
  }
  return `${unit && number < 100 ? number.toFixed(1) : Math.round(number)} ${UNITS[unit]}`;
}

/** A time in seconds. */
export function duration(seconds) {
  const number = seconds ?? 0;
  if (number < 1) return `${Math.round(number * 1000)} ms`;
  if (number < 60) return `${number < 10 ? number.toFixed(1) : Math.round(number)} s`;
  if (number < 3600) return `${Math.floor(number / 60)} min ${Math.round(number % 60)} s`;
  if (number < 172800) return `${Math.floor(number / 3600)} h ${Math.round((number % 3600) / 60)} min`;
  return `${Math.floor(number / 86400)} days`;
}

/** A time of day, of microseconds since 1970. */
export const moment = (micros) => (micros ? new Date(micros / 1000).toLocaleString("en-GB") : "unknown");

/** A class for a kind of pressure. */
export const kindClass = (kind) => (kind ?? "idle").replaceAll(" ", "-");

/** Bytes of a payload as text, and whether they are one; otherwise sixteen a line in hex, with the text beside. */
export function shown(data, asHex) {
  if (!asHex) {
    const text = textOf(data);
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

/** The text that bytes are; null where they are none, or have characters that are not to be seen. */
export function textOf(data) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(data);
    // Controls, and what turns the direction of writing around.
    return /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/.test(text) ? null : text;
  } catch {
    return null;
  }
}

/** Bytes of base64. */
export const unpacked = (base64) => Uint8Array.from(atob(base64 ?? ""), (each) => each.charCodeAt(0));
