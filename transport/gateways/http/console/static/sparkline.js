// Two minutes of a queue in a line: what was ready as an area, what came in and went out as lines.

import { s, setFact } from "./dom.js";

/** Points that are kept, one a second. */
export const KEPT = 120;
/** Queues of which points are kept here. */
const MOST = 400;

/** The samples of the queues that are looked at, one a second, the newest last. */
export class Histories {
  #of = new Map();

  /** What the broker had kept before somebody looked. */
  begin(name, samples) {
    const own = this.#of.get(name) ?? [];
    this.#of.delete(name);
    this.#of.set(name, own.length > samples.length ? own : samples.map(([ready, came, went]) => ({ ready, came, went })));
    if (this.#of.size > MOST) this.#of.delete(this.#of.keys().next().value);
  }

  /** A second has passed. */
  push(row) {
    if (!this.#of.has(row.name)) this.begin(row.name, []);
    const own = this.#of.get(row.name);
    own.push({ ready: row.ready, came: row.came, went: row.went });
    if (own.length > KEPT) own.splice(0, own.length - KEPT);
  }

  /** Those of one queue. */
  of(name) {
    return this.#of.get(name) ?? [];
  }
}

function path(values, most, width, height, closed) {
  if (!values.length) return "";
  const step = width / (KEPT - 1);
  const left = width - (values.length - 1) * step;
  const y = (value) => (height - 1.5 - (value / most) * (height - 3)).toFixed(1);
  const points = values.map((value, index) => `${(left + index * step).toFixed(1)} ${y(value)}`);
  const line = `M${points.join("L")}`;
  return closed ? `${line}L${width} ${height}L${left.toFixed(1)} ${height}Z` : line;
}

/** An SVG of a queue's samples; it is drawn anew by its `draw(samples)`. The table beside it has the figures. */
export function sparkline(width, height) {
  const area = s("path", { class: "ready" });
  const came = s("path", { class: "came" });
  const went = s("path", { class: "went" });
  const svg = s("svg", { class: "sparkline", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    area, came, went);
  svg.draw = (samples) => {
    const ready = samples.map((each) => each.ready);
    const rates = samples.flatMap((each) => [each.came, each.went]);
    setFact(area, "d", path(ready, Math.max(1, ...ready), width, height, true));
    const most = Math.max(1, ...rates);
    setFact(came, "d", path(samples.map((each) => each.came), most, width, height, false));
    setFact(went, "d", path(samples.map((each) => each.went), most, width, height, false));
  };
  return svg;
}
