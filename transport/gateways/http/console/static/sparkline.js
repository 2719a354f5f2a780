// Two minutes of a queue in a line: what was ready as an area, what came in and went out as lines.

import { s, setFact } from "./dom.js";

/** Seconds that are shown, and so many points are kept at most. */
const KEPT = 120;
/** Queues of which points are kept here. */
const MOST = 400;
/** Seconds between two points that are drawn as one line; where it is longer, nobody looked, and there is a gap. */
const JOINED = 3;
const SECOND_MS = 1000;

/** The samples of the queues that are looked at, with the time of each: about one a second, the newest last. */
export class Histories {
  #of = new Map();
  #now = 0;

  /** What the broker has kept of these queues up to now, by name. It counts for the time that it covers; what was kept here, for the time before. */
  begin(histories, now = Date.now()) {
    this.#now = now;
    for (const [name, samples] of Object.entries(histories)) {
      const kept = samples.map(([ready, came, went], index) => ({ ready, came, went, at: now - (samples.length - 1 - index) * SECOND_MS }));
      const since = now - (samples.length - 0.5) * SECOND_MS;
      this.#keep(name, [...this.#lately(name).filter(({ at }) => at < since), ...kept]);
    }
  }

  /** These queues as they are, a second later. */
  push(rows, now = Date.now()) {
    this.#now = now;
    for (const { name, ready, came, went } of rows) this.#keep(name, [...this.#lately(name), { ready, came, went, at: now }]);
  }

  /** The points of one queue, each with how many seconds `ago` it was. */
  of(name) {
    return this.#lately(name).map((each) => ({ ...each, ago: (this.#now - each.at) / SECOND_MS }));
  }

  /** Those of the two minutes. A clock that was set back leaves points of what is to come, which are none. */
  #lately(name) {
    const first = this.#now - (KEPT - 0.5) * SECOND_MS;
    return (this.#of.get(name) ?? []).filter(({ at }) => at >= first && at <= this.#now).slice(-KEPT);
  }

  /** Behind all others, so that those go first that nobody has looked at for the longest time. */
  #keep(name, points) {
    this.#of.delete(name);
    this.#of.set(name, points);
    if (this.#of.size > MOST) this.#of.delete(this.#of.keys().next().value);
  }
}

/** The points in pieces: where nobody looked in between, there is no line. */
function pieces(samples) {
  const found = [];
  for (const each of samples) {
    const last = found.at(-1)?.at(-1);
    if (last && last.ago - each.ago <= JOINED) found.at(-1).push(each);
    else found.push([each]);
  }
  return found;
}

function path(parts, value, most, width, height, closed) {
  const x = ({ ago }) => (width - (ago * width) / (KEPT - 1)).toFixed(1);
  const y = (each) => (height - 1.5 - (value(each) / most) * (height - 3)).toFixed(1);
  return parts.map((points) => {
    const line = `M${points.map((each) => `${x(each)} ${y(each)}`).join("L")}`;
    return closed ? `${line}L${x(points.at(-1))} ${height}L${x(points[0])} ${height}Z` : line;
  }).join("");
}

/** An SVG of a queue's samples; it is drawn anew by its `draw(samples)`. The table beside it has the figures. */
export function sparkline(width, height) {
  const area = s("path", { class: "ready" });
  const came = s("path", { class: "came" });
  const went = s("path", { class: "went" });
  const svg = s("svg", { class: "sparkline", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    area, came, went);
  svg.draw = (samples) => {
    const parts = pieces(samples);
    const most = Math.max(1, ...samples.flatMap((each) => [each.came, each.went]));
    setFact(area, "d", path(parts, (each) => each.ready, Math.max(1, ...samples.map((each) => each.ready)), width, height, true));
    setFact(came, "d", path(parts, (each) => each.came, most, width, height, false));
    setFact(went, "d", path(parts, (each) => each.went, most, width, height, false));
  };
  return svg;
}
