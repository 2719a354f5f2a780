// Dialogs: a form that asks, and a confirmation by typing a name. The browser keeps the focus within, and Escape closes.

import { field, h, say } from "./dom.js";
import { typedCount } from "./format.js";

/**
 * Ask by a form.
 *
 * `title`; `body`, elements; `verb`, what the button says; `act(isOpen)`, which does it and may throw; `danger`. What takes many steps asks
 * `isOpen()` between them: whoever closes the dialog wants no more of it.
 * The dialog closes when that has been done; what is thrown is told within, or on the page where the dialog is closed already.
 */
export function ask({ title, body, verb, act, danger = false }) {
  const problem = h("p", { class: "problem", role: "alert" });
  const go = h("button", { type: "submit", class: danger ? "main danger" : "main" }, verb);
  const heading = `dialog-${title.replace(/\W+/g, "-")}`;
  const from = document.activeElement;
  let working = false;
  const submit = async (event) => {
    event.preventDefault();
    if (working) return;
    const at = document.activeElement;
    working = go.disabled = true;
    problem.textContent = "";
    try {
      await act(() => dialog.open);
      dialog.close();
    } catch (error) {
      if (dialog.open) problem.textContent = error.message;
      else say(error.message, "error");
    } finally {
      working = go.disabled = false;
      check();
      if (dialog.open && !dialog.contains(document.activeElement)) at.focus();
    }
  };
  const form = h("form", { onsubmit: submit, novalidate: true },
    h("h2", { id: heading }, title), ...body, problem,
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), go));
  const dialog = h("dialog", { "aria-labelledby": heading }, form);
  const check = () => {
    const typed = form.querySelector("[data-must]");
    if (typed && !working) go.disabled = typed.value !== typed.dataset.must;
  };
  form.addEventListener("input", check);
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (from?.isConnected) from.focus();
  });
  document.body.append(dialog);
  check();
  dialog.showModal();
  form.querySelector("input, textarea, select")?.focus();
  return dialog;
}

/** The field into which a name is typed, so that nothing is done to another by a slip. */
export function typedName(name, what = "name of the queue") {
  const input = h("input", { autocomplete: "off", autocapitalize: "off", spellcheck: "false", "data-must": name });
  return field(`Type the ${what} to confirm`, input, name);
}

/** Close what is asked: it is about something that is not shown any more. */
export function closeAll() {
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
}

/** A confirmation by typing a name; `more` are elements before it. */
export function confirmByName({ title, text, name, what, verb, act, more = [] }) {
  return ask({ title, verb, act, danger: true, body: [h("p", {}, text), ...more, typedName(name, what)] });
}

/** The fields of a queue's settings, as the API describes them, and what of them is other than before. */
export function settingFields(described, current = {}) {
  const inputs = new Map();
  const elements = Object.entries(described).map(([name, { type, description }]) => {
    const label = name.replace(/_ms$/, " (ms)").replaceAll("_", " ");
    const value = current[name];
    let input;
    const words = name === "overflow" ? ["block", "reject", "reject-dead-letter", "drop-head"] : type === "boolean" ? ["true", "false"] : null;
    if (words)
      input = h("select", {}, ...(value === undefined ? [h("option", { value: "" }, "as the broker has it")] : []),
        ...words.map((each) => h("option", { value: each, selected: String(value) === each }, each)));
    else
      input = h("input", { type: "text", inputmode: type === "integer" ? "numeric" : "text", autocomplete: "off",
        value: value ?? "", placeholder: current.name ? "" : "as the broker has it" });
    inputs.set(name, { input, type, before: String(value ?? "") });
    return field(label, input, description);
  });
  const given = () => {
    const found = {};
    for (const [name, { input, type, before }] of inputs) {
      const now = input.value.trim();
      if (now === before) continue;
      if (type === "boolean") found[name] = now === "true";
      else if (type !== "integer") found[name] = now;
      else if (now === "") found[name] = 0;
      else if (typedCount(now) !== null) found[name] = typedCount(now);
      else throw new Error(`${name.replaceAll("_", " ")} is a whole number, not ${now}`);
    }
    return found;
  };
  return { elements, given };
}
