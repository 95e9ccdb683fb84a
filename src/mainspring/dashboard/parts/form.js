// Forms in dialogs: fields with their names, choices, and what the API says to them.
import { stringify } from "../exact.js";
import { html, useId, useState } from "../html.js";
import { Dialog } from "./dialog.js";
import { toast } from "./toast.js";

/**
 * `run` is async; when it has worked, `onClose` is called with what it answered, unless that is false: then it stays
 * open. `refused(error)` may show the error beside a field, and answers whether it does; `more` are further buttons;
 * `dismiss` is the one that changes nothing.
 */
export function FormDialog(
  { title, action, dismiss = "Cancel", run, onClose, refused, more, ready = true, danger = false, wide = false,
    children },
) {
  const [state, set] = useState({ busy: false, error: null });
  const submit = async (event) => {
    event.preventDefault();
    set({ busy: true, error: null });
    try {
      const answer = await run();
      if (answer === false) set({ busy: false, error: null });
      else onClose(answer);
    } catch (error) {
      set({ busy: false, error: refused?.(error) ? null : error });
    }
  };
  return html`<${Dialog} title=${title} wide=${wide} onClose=${() => onClose()}>
    <form class="asks" onSubmit=${submit}>
      ${children}
      ${state.error && html`<p class="error" role="alert">${state.error.message}</p>`}
      <footer>${more}<button type="button" onClick=${() => onClose()}>${dismiss}</button>
        <button class=${danger ? "danger" : "primary"}
          disabled=${state.busy || !ready}>${state.busy ? "Working…" : action}</button></footer>
    </form>
  <//>`;
}

/** A `run` that tells what it answers, and then calls `done`. */
export const told = (run, done) => async () => {
  const words = await run();
  if (words === false) return false;
  if (words) toast(words);
  done?.();
};

/** One line of text, or what `type` says. Other properties are the input's. */
export function Field({ label, hint, fault, value, onValue, ...rest }) {
  const id = useId();
  return html`<div class="field"><label for=${id}>${label}</label>
    <input id=${id} value=${value} aria-describedby=${(fault || hint) && `${id}-hint`}
      aria-invalid=${fault ? "true" : undefined} autocomplete="off" spellcheck=${false} ...${rest}
      onInput=${(event) => onValue(event.target.value)} />
    <${Hint} id=${`${id}-hint`} hint=${hint} fault=${fault} /></div>`;
}

/** One of `options`: [[value, words], …]. */
export function Choice({ label, hint, fault, value, onValue, options, ...rest }) {
  const id = useId();
  return html`<div class="field"><label for=${id}>${label}</label>
    <select id=${id} value=${value} aria-describedby=${(fault || hint) && `${id}-hint`}
      aria-invalid=${fault ? "true" : undefined} ...${rest} onChange=${(event) => onValue(event.target.value)}>
      ${options.map(([one, words]) => html`<option key=${one} value=${one}
        selected=${one === value}>${words}</option>`)}</select>
    <${Hint} id=${`${id}-hint`} hint=${hint} fault=${fault} /></div>`;
}

/** What a field is for, or what the API has against what is in it. */
function Hint({ id, hint, fault }) {
  if (!fault) return hint && html`<p id=${id} class="hint">${hint}</p>`;
  return html`<p id=${id} class="fault" role="alert">${fault}</p>`;
}

/** Some of `options`: [[value, words], …]. */
export function Checks({ legend, hint, chosen, onChosen, options }) {
  const all = options.map(([name]) => name);
  const turn = (one, on) => onChosen(all.filter((name) => (name === one ? on : chosen.includes(name))));
  return html`<fieldset><legend>${legend}</legend>${hint && html`<p class="hint">${hint}</p>`}
    <div class="checks">${options.map(([one, words]) => html`<label key=${one}>
      <input type="checkbox" checked=${chosen.includes(one)}
        onChange=${(event) => turn(one, event.target.checked)} /> ${words}</label>`)}</div>
  </fieldset>`;
}

const HIDDEN = "***"; // what the API shows in place of a secret

/** What differs. Fields that were not edited are not sent back: one may contain a mask, which must not be saved. */
export function edits(before, after) {
  const differs = (name) => stringify(after[name]) !== stringify(before[name]);
  const masked = (one) => stringify(one).includes(HIDDEN);
  const names = Object.keys(after).filter(differs);
  if (names.some((name) => masked(before[name]) && masked(after[name]))) {
    throw new Error(`A value is hidden from you (${HIDDEN}): write the whole value, or leave that field as it is.`);
  }
  return Object.fromEntries(names.map((name) => [name, after[name]]));
}

/** "a, b" -> ["a", "b"]; nothing -> null, which means any. */
export function names(text) {
  const found = text.split(",").map((one) => one.trim()).filter(Boolean);
  return found.length ? found : null;
}
