// The page: who is signed in, which part is shown, and the one stream that all parts are drawn from.

import { session, signIn, signOut, whenSignedOut, whoAmI } from "./api.js";
import { button, field, h, setText, trying } from "./dom.js";
import { bytes, count, rate, whole } from "./format.js";
import { Journal } from "./journal.js";
import { Connections, Subscriptions, Users } from "./lists.js";
import { Queue } from "./queue.js";
import { Queues } from "./queues.js";
import { Histories, KEPT } from "./sparkline.js";
import { Stream } from "./stream.js";

const TICK_MS = 1000;
const AGAIN_MS = 2000;
const PARTS = { queues: ["Queues", Queues], connections: ["Connections", Connections], subscriptions: ["Subscriptions", Subscriptions],
  journal: ["Journal", Journal], users: ["Users", Users] };
const TOTALS = [["In per s", (all) => rate(all.came)], ["Out per s", (all) => rate(all.went)], ["Ready", (all) => count(all.ready)],
  ["Held", (all) => count(all.held)], ["Stored", (all) => bytes(all.stored_bytes)], ["Queues", (all) => whole(all.queues)],
  ["Connections", (all) => whole(all.connections)]];

const by = (id) => document.getElementById(id);
const histories = new Histories();
let view = null;
let picture = null;
let live = false;
let ticked = performance.now();

// --- the stream

const stream = new Stream({
  picture(now, first) {
    picture = now;
    if (first) for (const [name, samples] of Object.entries(now.history ?? {})) histories.begin(name, samples);
    TOTALS.forEach(([, of], index) => setText(totals[index], of(now.totals)));
    view?.picture(now);
  },
  state(name, text) {
    live = name === "live";
    by("state").dataset.state = name;
    setText(by("state-text"), text);
    document.body.classList.toggle("stale", name === "lost");
  },
  refused(problem) {
    if (problem.status === 401) askWho();
    else view?.element.prepend(h("p", { class: "note bad", role: "alert" }, `${problem.message}.`));
  },
});

const app = { histories, ask: (asked) => stream.ask(asked) };

const totals = TOTALS.map(([text]) => {
  const value = h("dd", {}, "–");
  by("strip").append(h("dl", {}, h("dt", {}, text), value));
  return value;
});

// A second has passed: the lines go on, also of queues of which nothing changes. A page in the background has no timers to count on.
setInterval(() => {
  const now = performance.now();
  const seconds = Math.min(KEPT, Math.floor((now - ticked) / TICK_MS + 0.2));
  if (seconds < 1) return;
  ticked = now;
  if (!live || !picture) return;
  const rows = new Map([...picture.queues, ...(picture.flow ? [picture.flow] : [])].map((row) => [row.name, row]));
  for (const row of rows.values()) for (let each = 0; each < seconds; each += 1) histories.push(row);
  view?.tick?.();
}, TICK_MS);

for (const name of ["online", "pageshow"]) addEventListener(name, () => stream.retry());
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && stream.retry());

// --- which part is shown

by("nav").append(...Object.entries(PARTS).map(([key, [text]]) => h("a", { href: `#/${key}`, "data-part": key }, text)));

function route() {
  const [where, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [part, ...names] = where.split("/").map((each) => {
    try {
      return decodeURIComponent(each);
    } catch {
      return each;
    }
  });
  const key = part in PARTS ? part : "queues";
  return [key, names, new URLSearchParams(query)];
}

function show(focus) {
  const [key, names, query] = route();
  view?.close();
  for (const link of by("nav").children)
    if (link.dataset.part === key) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  view = key === "queues" && names[0] ? new Queue(app, query, names) : new PARTS[key][1](app, query);
  document.title = `${view.title} · Penstock`;
  by("main").replaceChildren(view.element);
  if (focus) by("title")?.focus();
  stream.ask(view.asked);
}

addEventListener("hashchange", () => {
  if (location.hash === "#main") return;
  if (session.user !== null) show(true);
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  by("main").focus();
});

// --- who is signed in

function enter() {
  by("nav").hidden = by("strip").hidden = false;
  const out = async () => {
    stream.close();
    await trying(signOut);
    askWho();
  };
  by("user").replaceChildren(...(session.users ? [h("span", {}, session.user), button("Sign out", out, { class: "small" })] : []));
  show(false);
}

function askWho() {
  stream.close();
  view?.close();
  view = picture = null;
  by("nav").hidden = by("strip").hidden = true;
  by("user").replaceChildren();
  by("state").dataset.state = "refused";
  setText(by("state-text"), "Signed out");
  document.title = "Sign in · Penstock";
  const user = h("input", { name: "username", autocomplete: "username", autocapitalize: "off", spellcheck: "false" });
  const password = h("input", { type: "password", name: "password", autocomplete: "current-password" });
  const token = h("input", { type: "password", name: "token", autocomplete: "off" });
  const problem = h("p", { class: "problem", role: "alert" });
  const go = h("button", { type: "submit", class: "main" }, "Sign in");
  const submit = async (event) => {
    event.preventDefault();
    go.disabled = true;
    problem.textContent = "";
    try {
      await signIn(token.value ? { token: token.value.trim() } : { user: user.value, password: password.value });
      enter();
      by("title")?.focus();
    } catch (error) {
      problem.textContent = `${error.message}.`;
      password.value = "";
      (token.value ? token : password).focus();
    } finally {
      go.disabled = false;
    }
  };
  by("main").replaceChildren(h("section", { class: "panel sign-in", "aria-labelledby": "title" }, h("h1", { id: "title", tabindex: "-1" }, "Sign in"),
    h("form", { onsubmit: submit }, h("p", { class: "muted" }, "This broker has users. Sign in as one of them."), field("Name", user), field("Password", password),
      h("details", { class: "more" }, h("summary", {}, "By a token instead"), field("Token", token)), problem, h("div", { class: "buttons" }, go))));
  user.focus();
}

whenSignedOut(askWho);

async function begin() {
  try {
    await whoAmI();
  } catch (error) {
    by("state").dataset.state = "lost";
    setText(by("state-text"), `Reconnecting: ${error.message}`);
    setTimeout(begin, AGAIN_MS);
    return;
  }
  if (session.users && session.user === null) askWho();
  else enter();
}

begin();
