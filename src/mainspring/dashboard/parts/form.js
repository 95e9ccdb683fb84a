// Forms in dialogs: labelled fields, choices, and errors of the API.
import { stringify } from "../lossless_json.js";
import { html, useId, useState } from "../html.js";
import { Dialog } from "./dialog.js";
import { toast } from "./toast.js";

/**
 * `run` is async; after it `onClose` is called with its result, unless that is false: then the dialog stays open.
 * `refused(error)` may show the error at a field, and returns whether it does; `more` are further buttons; `dismiss` is
 * the label of the button that cancels.
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

/** Wraps `run`: shows the text that it returns as a toast, and then calls `done`. */
export const withToast = (run, done) => async () => {
  const words = await run();
  if (words === false) return false;
  if (words) toast(words);
  done?.();
};

/** An input with a label. Other properties are passed to the input. */
export function Field({ label, hint, fault, value, onValue, ...rest }) {
  const id = useId();
  return html`<div class="field"><label for=${id}>${label}</label>
    <input id=${id} value=${value} aria-describedby=${(fault || hint) && `${id}-hint`}
      aria-invalid=${fault ? "true" : undefined} autocomplete="off" spellcheck=${false} ...${rest}
      onInput=${(event) => onValue(event.target.value)} />
    <${Hint} id=${`${id}-hint`} hint=${hint} fault=${fault} /></div>`;
}

/** A select with a label. `options` is [[value, words], …]. */
export function Choice({ label, hint, fault, value, onValue, options, ...rest }) {
  const id = useId();
  return html`<div class="field"><label for=${id}>${label}</label>
    <select id=${id} value=${value} aria-describedby=${(fault || hint) && `${id}-hint`}
      aria-invalid=${fault ? "true" : undefined} ...${rest} onChange=${(event) => onValue(event.target.value)}>
      ${options.map(([one, words]) => html`<option key=${one} value=${one}
        selected=${one === value}>${words}</option>`)}</select>
    <${Hint} id=${`${id}-hint`} hint=${hint} fault=${fault} /></div>`;
}

/** The hint of a field, or its error. */
function Hint({ id, hint, fault }) {
  if (!fault) return hint && html`<p id=${id} class="hint">${hint}</p>`;
  return html`<p id=${id} class="fault" role="alert">${fault}</p>`;
}

/** A group of checkboxes. `options` is [[value, words], …]. */
export function Checkboxes({ legend, hint, chosen, onChosen, options }) {
  const all = options.map(([name]) => name);
  const turn = (one, on) => onChosen(all.filter((name) => (name === one ? on : chosen.includes(name))));
  return html`<fieldset><legend>${legend}</legend>${hint && html`<p class="hint">${hint}</p>`}
    <div class="checks">${options.map(([one, words]) => html`<label key=${one}>
      <input type="checkbox" checked=${chosen.includes(one)}
        onChange=${(event) => turn(one, event.target.checked)} /> ${words}</label>`)}</div>
  </fieldset>`;
}

const MASK = "***"; // the API's mask for a secret

/** The changed fields. Unchanged ones are not sent: one may contain a mask, which must not be saved. */
export function edits(before, after) {
  const differs = (name) => stringify(after[name]) !== stringify(before[name]);
  const masked = (one) => stringify(one).includes(MASK);
  const names = Object.keys(after).filter(differs);
  if (names.some((name) => masked(before[name]) && masked(after[name]))) {
    throw new Error(`A value is hidden from you (${MASK}): write the whole value, or leave that field as it is.`);
  }
  return Object.fromEntries(names.map((name) => [name, after[name]]));
}

/** "a, b" -> ["a", "b"]; "" -> null, which means any. */
export function parseNames(text) {
  const found = text.split(",").map((one) => one.trim()).filter(Boolean);
  return found.length ? found : null;
}
