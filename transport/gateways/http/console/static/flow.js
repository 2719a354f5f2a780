// Who sends to a queue and who receives from it: bands whose width is the rate and whose colour is the pressure.

import { s } from "./dom.js";
import { bytes, count, kindClass, rate, shareOf } from "./format.js";

const SHOWN = 6;
const BAND = 46;
const TOP = 26;
const TANK = 34;
/** Pixels of the letters: as in console.css. */
const LABEL = 12.5;
const FAINT = 11.5;
/** Pixels of room from which on what a party may do is said as well. */
const NOTED = 176;
/** Of the dashes: as in console.css. */
const PERIOD_MS = 1600;

/** A band's width in pixels: it grows with the logarithm, so that ten a second and ten thousand are both seen. */
function width(perSecond) {
  return perSecond > 0 ? Math.min(22, 2.5 + 4.2 * Math.log10(1 + perSecond)) : 1.4;
}

function named(party) {
  const what = { sender: "sender", receiver: "receiver", taker: "HTTP", subscription: "Spark query" }[party.role] ?? party.role;
  // A query is known by its subscription, as in the sentence; its owner is a host and a process.
  if (party.subscription) return party.role === "subscription" ? `query ${party.subscription}` : party.subscription;
  if (party.client) return party.client;
  if (party.peer) return `${what} ${party.peer}`;
  return what;
}

/** Its priority, where it has one. */
const ranked = (party) => (party.priority ? `, priority ${count(party.priority)}` : "");

/** The name, and of a query whose it is. */
function whole(party) {
  return party.subscription && party.client ? `${named(party)}, of ${party.client}` : named(party);
}

const canvas = document.createElement("canvas").getContext("2d");

/** As much of a text as fits into so many pixels, in letters of a size as in console.css. */
function cut(text, pixels, size) {
  canvas.font = `${size}px ${getComputedStyle(document.documentElement).fontFamily}`;
  const fits = (some) => canvas.measureText(some).width <= pixels;
  // No letter is so narrow that more of them fit.
  const some = text.slice(0, Math.floor(pixels));
  if (some === text && fits(text)) return text;
  const letters = [...some];
  let [least, most] = [0, letters.length];
  while (least < most) {
    const middle = Math.ceil((least + most) / 2);
    if (fits(`${letters.slice(0, middle).join("")}…`)) least = middle;
    else most = middle - 1;
  }
  return `${letters.slice(0, least).join("")}…`;
}

/** Dashes along a band. They are drawn anew each second, and go on where they were. */
function moving(line, thick) {
  const path = s("path", { class: "moving", d: line, "stroke-width": thick });
  path.style.animationDelay = `${-(performance.now() % PERIOD_MS)}ms`;
  return path;
}

/** The busiest as they are, the others as one. */
function groups(parties, all) {
  const shown = parties.slice(0, all > SHOWN ? SHOWN - 1 : SHOWN).map((party) => ({
    name: named(party), whole: whole(party), rate: party.rate,
    note: party.role === "sender" ? (party.waits ? "waits for room" : `may send ${count(party.demand)}`)
      : party.waits && party.role !== "subscription" ? `in line${ranked(party)}` : `holds ${count(party.held)}, wants ${count(party.demand)}${ranked(party)}`,
  }));
  const others = parties.slice(shown.length);
  if (all > shown.length)
    shown.push({ name: `${count(all - shown.length)} others`, whole: `${count(all - shown.length)} others`, rate: others.reduce((sum, each) => sum + each.rate, 0), note: "" });
  return shown;
}

/** Draw a flow into an SVG that is so many pixels wide. */
export function draw(svg, flow, pixels) {
  const wide = Math.max(280, Math.round(pixels));
  const senders = groups(flow.senders, flow.all_senders);
  const receivers = groups(flow.receivers, flow.all_receivers);
  const rows = Math.max(senders.length, receivers.length, 2);
  const high = TOP + rows * BAND + 34;
  const kind = kindClass(flow.pressure);
  const left = wide / 2 - TANK / 2;
  const right = wide / 2 + TANK / 2;
  const room = left - 8;
  const tankTop = TOP;
  const tankHigh = rows * BAND;
  const parts = [
    s("text", { class: "head", x: 0, y: 13 }, `Senders (${count(flow.all_senders)})`),
    s("text", { class: "head", x: wide, y: 13, "text-anchor": "end" }, `Receivers (${count(flow.all_receivers)})`),
    s("text", { class: "head", x: wide / 2, y: 13, "text-anchor": "middle" }, "Queue"),
  ];
  const side = (list, isSender) => {
    if (!list.length)
      parts.push(s("text", { class: "faint", x: isSender ? 0 : wide, y: TOP + tankHigh / 2, "text-anchor": isSender ? "start" : "end" },
        isSender ? "nobody sends" : "nobody receives"));
    list.forEach((party, index) => {
      const from = TOP + (rows - list.length) * (BAND / 2) + index * BAND + 27;
      // Bands meet the tank evenly, wherever they come from.
      const to = tankTop + ((index + 1) * tankHigh) / (list.length + 1);
      const [x0, x1] = isSender ? [0, left] : [wide, right];
      const middle = (x0 + x1) / 2 + (isSender ? (x1 - x0) * 0.22 : -(x0 - x1) * 0.22);
      const line = `M${x0} ${from}C${middle} ${from} ${middle} ${to} ${x1} ${to}`;
      const thick = width(party.rate).toFixed(1);
      parts.push(s("path", { class: party.rate > 0 ? "band" : "band still", d: line, "stroke-width": thick }));
      if (party.rate > 0)
        parts.push(moving(isSender ? line : `M${x1} ${to}C${middle} ${to} ${middle} ${from} ${x0} ${from}`, thick));
      const anchor = isSender ? "start" : "end";
      parts.push(s("text", { class: "label", x: x0, y: from - width(party.rate) / 2 - 4, "text-anchor": anchor }, cut(party.name, room, LABEL), s("title", {}, party.whole)));
      parts.push(s("text", { class: "faint", x: x0, y: from + width(party.rate) / 2 + 12, "text-anchor": anchor },
        cut(`${rate(party.rate)}/s${party.note && room > NOTED ? `, ${party.note}` : ""}`, room, FAINT)));
    });
  };
  side(senders, true);
  side(receivers, false);
  const share = Math.min(1, shareOf(flow));
  const filled = share > 0 ? Math.max(2, share * (tankHigh - 2)) : 0;
  parts.push(
    s("rect", { class: "tank", x: left, y: tankTop, width: TANK, height: tankHigh, rx: 5 }),
    s("rect", { class: "fill", x: left + 1, y: tankTop + tankHigh - 1 - filled, width: TANK - 2, height: filled, rx: 4 }),
    s("text", { class: "big", x: wide / 2, y: high - 18, "text-anchor": "middle" }, `${count(flow.ready)} ready`),
    s("text", { class: "faint", x: wide / 2, y: high - 3, "text-anchor": "middle" },
      flow.max_messages === null && flow.max_bytes === null ? bytes(flow.stored_bytes) : `${bytes(flow.stored_bytes)}, ${Math.round(share * 100)} % of its limit`),
  );
  svg.setAttribute("viewBox", `0 0 ${wide} ${high}`);
  svg.setAttribute("height", high);
  svg.setAttribute("data-kind", kind);
  svg.setAttribute("aria-label", `Flow: ${flow.all_senders} senders at ${rate(flow.came)} a second, ${flow.all_receivers} receivers at ${rate(flow.went)} a second. ${flow.sentence}`);
  svg.replaceChildren(...parts);
}
