// Elements, made without a text that is parsed: whatever a client calls itself stays a text.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, facts, children) {
  for (const [name, value] of Object.entries(facts)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

/** An element of HTML: `h("p", {class: "note"}, "text", other)`. */
export function h(name, facts = {}, ...children) {
  return fill(document.createElement(name), facts, children);
}

/** An element of SVG. */
export function s(name, facts = {}, ...children) {
  return fill(document.createElementNS(SVG, name), facts, children);
}

/** Set an element's text, where that is another: what does not change is not touched. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Set an attribute, where that is another. */
export function setFact(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** A button that says what it does. */
export function button(text, act, facts = {}) {
  return h("button", { type: "button", onclick: act, ...facts }, text);
}

/** Let buttons be pressed or not, as [button, whether]. Whoever is at one that cannot be pressed any more goes on at the first that can. */
export function enable(...buttons) {
  const lost = buttons.some(([element, on]) => !on && element === document.activeElement);
  for (const [element, on] of buttons) element.disabled = !on;
  if (lost) buttons.find(([, on]) => on)?.[0].focus();
}

let clears = null;

/** Say something once, to eyes and to screen readers. */
export function say(text, kind = "done") {
  const said = document.getElementById("said");
  said.dataset.kind = kind;
  said.replaceChildren(h("p", {}, text));
  clearTimeout(clears);
  clears = setTimeout(() => said.replaceChildren(), kind === "error" ? 12000 : 6000);
}

/** Run what a button does, and say so where it fails. */
export async function trying(act) {
  try {
    return await act();
  } catch (error) {
    say(error.message, "error");
    return undefined;
  }
}

let numbered = 0;

/** A field of a form with its label, and a line of help. */
export function field(label, input, help = "") {
  numbered += 1;
  input.id ||= `field-${numbered}`;
  const parts = [h("label", { for: input.id }, label), input];
  if (help) {
    input.setAttribute("aria-describedby", `${input.id}-help`);
    parts.push(h("small", { id: `${input.id}-help` }, help));
  }
  return h("div", { class: input.type === "checkbox" ? "field check" : "field" }, parts);
}

/** A table with a caption that only screen readers have; columns are [heading, class]. */
export function table(caption, columns, body) {
  const heads = columns.map(([text, kind]) => h("th", { scope: "col", class: kind }, text));
  return h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", { class: "unseen" }, caption), h("thead", {}, h("tr", {}, heads)), body));
}
