// The page: who is signed in, which part is shown, and the one stream that all parts are drawn from.

import { session, signIn, signOut, whenSignedOut, whoAmI } from "./api.js";
import { closeAll } from "./dialogs.js";
import { button, field, h, say, setText } from "./dom.js";
import { bytes, count, rate } from "./format.js";
import { Journal } from "./journal.js";
import { Connections, Subscriptions, Users } from "./lists.js";
import { Queue } from "./queue.js";
import { Queues } from "./queues.js";
import { Histories } from "./sparkline.js";
import { Stream } from "./stream.js";

const TICK_MS = 1000;
const AGAIN_MS = 2000;
/** Letters of a total from which on they are smaller, where there is little room. */
const LONG = 9;
const PARTS = { queues: ["Queues", Queues], connections: ["Connections", Connections], subscriptions: ["Subscriptions", Subscriptions],
  journal: ["Journal", Journal], users: ["Users", Users] };
const TOTALS = [["In per s", (all) => rate(all.came)], ["Out per s", (all) => rate(all.went)], ["Ready", (all) => count(all.ready)],
  ["Held", (all) => count(all.held)], ["Stored", (all) => bytes(all.stored_bytes)], ["Queues", (all) => count(all.queues)],
  ["Connections", (all) => count(all.connections)]];

const by = (id) => document.getElementById(id);
const histories = new Histories();
let view = null;
let picture = null;
let live = false;
/** Whether the stream was away: somebody else may have signed in meanwhile, in another window. */
let away = false;
/** What the broker has refused of what is shown. */
let note = null;

// --- the stream

const stream = new Stream({
  picture(now, first) {
    picture = now;
    if (first) histories.begin(now.history ?? {});
    TOTALS.forEach(([, of], index) => {
      const text = of(now.totals);
      setText(totals[index], text);
      totals[index].classList.toggle("long", text.length > LONG);
    });
    note?.remove();
    view?.picture(now);
  },
  state(name, text) {
    live = name === "live";
    by("state").dataset.state = name;
    setText(by("state-text"), text);
    document.body.classList.toggle("stale", name === "lost");
    if (name === "lost" || name === "paused") away = true;
    if (!live) return;
    if (away) checkWho();
    away = false;
  },
  refused(problem) {
    if (problem.status === 401) askWho();
    else {
      note?.remove();
      note = h("p", { class: "note bad", role: "alert" }, `${problem.message}.`);
      view?.element.prepend(note);
    }
  },
});

/** Ask for what a part shows; whether it is what is shown already. */
function look(asked) {
  const same = stream.ask(asked);
  if (!same) picture = null;
  return same;
}

const app = { histories, ask: look };

const totals = TOTALS.map(([text]) => {
  const value = h("dd", {}, "–");
  by("strip").append(h("dl", {}, h("dt", {}, text), value));
  return value;
});

// A second has passed: the lines go on, also of queues of which nothing changes. Where this comes late, nobody knows what was in between.
setInterval(() => {
  if (!live || !picture) return;
  const rows = new Map([...picture.queues, ...(picture.flow ? [picture.flow] : [])].map((row) => [row.name, row]));
  histories.push(rows.values());
  view?.tick?.();
}, TICK_MS);

for (const name of ["online", "pageshow"]) addEventListener(name, () => stream.retry());
// Nobody sees it in the background.
const pause = () => stream.pause(document.visibilityState === "hidden");
document.addEventListener("visibilitychange", pause);
pause();

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
  const key = Object.hasOwn(PARTS, part) ? part : "queues";
  return [key, names, new URLSearchParams(query)];
}

function show(focus) {
  const [key, names, query] = route();
  closeAll();
  view?.close();
  for (const link of by("nav").children)
    if (link.dataset.part === key) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  view = key === "queues" && names[0] ? new Queue(app, query, names) : new PARTS[key][1](app, query);
  document.title = `${view.title} · Penstock`;
  by("main").replaceChildren(view.element);
  if (focus) by("title")?.focus();
  // The stream tells what changes, and nothing where nothing does.
  if (look(view.asked) && picture) view.picture(picture);
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
    try {
      await signOut();
    } catch (error) {
      say(`You are still signed in: ${error.message}.`, "error");
      return;
    }
    settle();
  };
  by("user").replaceChildren(...(session.users ? [h("span", {}, session.user), button("Sign out", out, { class: "small" })] : []));
  show(false);
}

/** Show what there is to whoever is known now. */
function settle() {
  if (session.users && session.user === null) askWho();
  else enter();
}

/** See whether it is still the same who looks: browsers have one session for all their windows. */
async function checkWho() {
  const { users, user } = session;
  try {
    await whoAmI();
  } catch {
    return;
  }
  if (session.users !== users || session.user !== user) settle();
}

function askWho() {
  stream.close();
  closeAll();
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
  settle();
}

begin();
