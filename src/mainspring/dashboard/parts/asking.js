// A dialog that sends a form to the API, and a field for a time.
import { local, utc } from "../format.js";
import { html, useId, useState } from "../html.js";
import { Dialog } from "./dialog.js";
import { toast } from "./toast.js";

/**
 * A dialog whose form asks the API: what `send` answers is told, and when that says no it stays open, with its words.
 * `onClose(done)`; `refused(error, clear)` may say more, and how to go on.
 */
export function Asking({ title, action, danger, wide, blocked = false, send, onClose, refused, children }) {
  const [state, set] = useState({ busy: false, error: null });
  const submit = async (event) => {
    event.preventDefault();
    set({ busy: true, error: null });
    try {
      const words = await send();
      if (words) toast(words);
      onClose(true);
    } catch (error) {
      set({ busy: false, error });
    }
  };
  return html`<${Dialog} title=${title} wide=${wide} onClose=${() => onClose(false)}>
    <form onSubmit=${submit}>${children}
      ${state.error && html`<p class="error" role="alert">${state.error.message}</p>${refused?.(state.error, () => set({ busy: false, error: null }))}`}</form>
    <footer><button type="button" onClick=${() => onClose(false)}>Leave it</button>
      <button type="button" class=${danger ? "danger" : "primary"} disabled=${state.busy || blocked} aria-busy=${state.busy}
        onClick=${submit}>${state.busy ? "Working…" : action}</button></footer>
  <//>`;
}

/** For <input type="datetime-local">, in the viewer's zone. */
export const inField = (time) => local(time).replace(" ", "T");

/** `value` and `onValue` are texts of that kind. */
export function TimeField({ label, value, onValue, focus = false }) {
  const id = useId();
  const time = Date.parse(value);
  return html`<div class="field"><label for=${id}>${label}</label>
    <input id=${id} type="datetime-local" step="1" required autofocus=${focus} value=${value} onInput=${(event) => onValue(event.target.value)} />
    <p class="hint">${Number.isNaN(time) ? "Your time." : `Your time; ${utc(time)}.`}</p></div>`;
}
