// The journal: how far it is, what it takes of the disk, and how long that takes.

import { h, setText } from "./dom.js";
import { bytes, count, duration } from "./format.js";

const FACTS = [
  ["Directory", (facts) => facts.directory],
  ["Takes of the disk", (facts) => bytes(facts.disk_bytes)],
  ["Free on the disk", (facts) => bytes(facts.free_bytes)],
  ["Segments", (facts) => count(facts.segments)],
  ["Next record", (facts) => count(facts.next_lsn)],
  ["Durable up to record", (facts) => count(facts.durable_lsn)],
  ["Waits to be written", (facts) => bytes(facts.pending_bytes)],
  ["Records", (facts) => count(facts.records)],
  ["Group commits", (facts) => count(facts.groups)],
  ["Records in a group", (facts) => (facts.groups ? (facts.records / facts.groups).toFixed(1) : "none yet")],
  ["Syncs", (facts) => count(facts.syncs)],
  ["A sync takes", (facts) => duration(facts.sync_ms / 1000)],
  ["Checkpoints", (facts) => count(facts.checkpoints)],
  ["Cached", (facts) => bytes(facts.cache_bytes)],
  ["Read from the cache", (facts) => {
    const reads = facts.cache_hits + facts.cache_misses;
    return reads ? `${((100 * facts.cache_hits) / reads).toFixed(1)} % of ${count(reads)}` : "nothing read";
  }],
];

export class Journal {
  title = "Journal";
  asked = { limit: 1, journal: "true" };

  constructor() {
    this.values = FACTS.map(() => h("dd"));
    this.none = h("p", { class: "note", hidden: true }, "This broker keeps its queues in memory: it has no journal, and what it holds is gone when it ends.");
    this.paused = h("p", { class: "note bad", role: "status", hidden: true });
    this.facts = h("div", { class: "panel facts" }, FACTS.map(([text], index) => h("dl", {}, h("dt", {}, text), this.values[index])));
    this.element = h("section", { "aria-labelledby": "title" }, h("div", { class: "bar" }, h("h1", { id: "title", tabindex: "-1" }, "Journal")),
      this.none, this.paused, this.facts);
  }

  picture({ journal }) {
    this.none.hidden = journal !== null;
    this.facts.hidden = journal === null;
    this.paused.hidden = !journal?.paused;
    if (journal === null) return;
    setText(this.paused, journal.paused ? `Nothing is taken now: ${journal.paused}` : "");
    FACTS.forEach(([, of], index) => setText(this.values[index], of(journal)));
  }

  tick() {}
  close() {}
}
