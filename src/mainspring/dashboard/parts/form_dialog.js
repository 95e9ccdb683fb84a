// A dialog that is filled in and sent: what the API refuses stands in it, and nothing that was typed is lost.
import { html, useState } from "../html.js";
import { Dialog } from "./dialog.js";
import { toast } from "./toast.js";

/**
 * `run` is async; when it is done the dialog closes, and what it answers with, if a text, is told. An answer of false
 * leaves it open. `refused(error)` may take the error and show it beside a field, by answering true.
 */
export function FormDialog({ title, action, run, onClose, onDone, refused, danger = false, wide = false, disabled = false, more, children }) {
  const [state, set] = useState({ busy: false, error: null });
  const submit = async (event) => {
    event.preventDefault();
    set({ busy: true, error: null });
    try {
      const words = await run();
      if (words === false) return set({ busy: false, error: null });
      if (typeof words === "string") toast(words);
      onDone?.();
      onClose();
    } catch (error) {
      set({ busy: false, error: refused?.(error) ? null : error });
    }
  };
  return html`<${Dialog} title=${title} wide=${wide} onClose=${onClose}>
    <form class="filled" onSubmit=${submit}>
      ${children}
      <p class="error" role="alert">${state.error?.message}</p>
      <footer>${more}
        <button type="button" onClick=${onClose}>Leave it</button>
        <button class=${danger ? "danger" : "primary"} disabled=${state.busy || disabled}>${state.busy ? "Working…" : action}</button>
      </footer>
    </form>
  <//>`;
}
