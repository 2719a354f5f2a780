// What goes on, as server-sent events: a picture, then what changes of it. A stream that ends is asked for again.
//
// EventSource would do, but says neither why it is refused nor lets a header be sent.

import { headers, path, problemOf } from "./api.js";

const SOON = 500;
const LATEST = 5000;
/** Milliseconds without a byte after which a stream is given up: a broker with nothing new says so every 15 s. */
const SILENT = 40000;
/** Milliseconds for the beginning of an answer. */
const ANSWER = 10000;

/** Put a change into a picture. */
export function changed(picture, change) {
  const next = { ...picture };
  for (const name of ["totals", "matching", "flow", "journal"]) if (name in change) next[name] = change[name];
  if (change.queues || change.order) {
    const rows = new Map(picture.queues.map((row) => [row.name, row]));
    for (const [name, figures] of Object.entries(change.queues ?? {}))
      rows.set(name, { ...rows.get(name), ...figures });
    const order = change.order ?? picture.queues.map((row) => row.name);
    next.queues = order.map((name) => rows.get(name));
  }
  return next;
}

/**
 * One stream at a time; another that is asked for takes the place of the one before.
 *
 * `tell` has three functions: `picture(picture, first)`, `state(name, text)` with live, connecting, lost, paused or refused, and
 * `refused(problem)`.
 */
export class Stream {
  #tell;
  #asked = null;
  #abort = null;
  #again = null;
  #tries = 0;
  #paused = false;
  /** Whether it was told that the stream is lost, and nothing else since. */
  #lost = false;

  constructor(tell) {
    this.#tell = tell;
  }

  /** Ask for this from now on, the fields of GET /events; whether that is what is asked for already. */
  ask(asked) {
    const same = JSON.stringify(asked) === JSON.stringify(this.#asked);
    if (same && this.#abort) return true;
    this.#asked = asked;
    this.#tries = 0;
    if (!this.#paused) this.#open();
    return same;
  }

  /** Ask for nothing while nobody sees it; or go on. */
  pause(paused) {
    if (paused === this.#paused) return;
    this.#paused = paused;
    if (!this.#asked) return;
    if (paused) {
      this.#stop();
      this.#tell.state("paused", "Paused");
    } else this.#open();
  }

  /** Ask again at once, for there is reason to think that it helps. */
  retry() {
    if (this.#asked && this.#again !== null) this.#open();
  }

  /** Ask for nothing any more. */
  close() {
    this.#stop();
    this.#asked = null;
  }

  #stop() {
    this.#lost = false;
    clearTimeout(this.#again);
    this.#again = null;
    this.#abort?.abort();
    this.#abort = null;
  }

  async #open() {
    clearTimeout(this.#again);
    this.#again = null;
    const before = this.#abort;
    const abort = (this.#abort = new AbortController());
    const current = () => this.#abort === abort;
    // The one before ends when the new one stands: what the broker keeps for it is kept on.
    const instead = () => before?.abort();
    // It is lost until one stands again: each try told anew would be heard all the time.
    if (!before && !this.#lost) this.#tell.state("connecting", "Connecting");
    let late = false;
    const waits = setTimeout(() => {
      late = true;
      abort.abort();
    }, ANSWER);
    try {
      const answer = await fetch(`${path("events")}?${new URLSearchParams(this.#asked)}`, {
        headers: headers({ Accept: "text/event-stream" }), cache: "no-store", signal: abort.signal,
      });
      if (!answer.ok) {
        const problem = await problemOf(answer);
        if (current() && [400, 401, 403].includes(problem.status)) {
          this.#abort = null;
          this.#lost = false;
          this.#tell.state("refused", "Not allowed");
          this.#tell.refused(problem);
          return;
        }
        throw problem;
      }
      clearTimeout(waits);
      await this.#read(answer.body, abort, current, instead);
    } catch (error) {
      if (current() && late) this.#why = "the broker does not answer";
      else if (current() && error.name !== "AbortError") this.#why = error.status ? error.message : "";
    } finally {
      clearTimeout(waits);
      instead();
    }
    if (!current()) return;
    this.#abort = null;
    this.#tries += 1;
    const wait = Math.min(LATEST, SOON * 2 ** (this.#tries - 1));
    this.#lost = true;
    this.#tell.state("lost", this.#why ? `Reconnecting: ${this.#why}` : "Reconnecting");
    this.#why = "";
    this.#again = setTimeout(() => this.#open(), wait);
  }

  #why = "";

  async #read(body, abort, current, instead) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    let picture = null;
    let silent = null;
    const heard = () => {
      clearTimeout(silent);
      silent = setTimeout(() => reader.cancel().catch(() => {}), SILENT);
    };
    try {
      heard();
      for (;;) {
        const { value, done } = await reader.read();
        if (done || !current()) return;
        heard();
        rest += value;
        const events = rest.split("\n\n");
        rest = events.pop();
        for (const event of events) {
          const { name, data } = parsed(event);
          if (name === "picture") {
            instead();
            this.#tries = 0;
            this.#lost = false;
            picture = data;
            this.#tell.state("live", "Live");
            this.#tell.picture(picture, true);
          } else if (name === "change" && picture) {
            picture = changed(picture, data);
            this.#tell.picture(picture, false);
          } else if (name === "end") this.#why = data.code === "expired" ? "" : data.detail;
        }
      }
    } finally {
      clearTimeout(silent);
      reader.cancel().catch(() => {});
    }
  }
}

function parsed(event) {
  let name = "";
  let data = "";
  for (const line of event.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  return { name, data: data ? JSON.parse(data) : null };
}
