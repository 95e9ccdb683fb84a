// A question before something is done to many jobs, how far it is, and what came of it.
import { plural } from "../format.js";
import { html, useRef, useState } from "../html.js";
import { inLots, reasons } from "../lots.js";
import { jobLink } from "../route.js";
import { Dialog } from "./dialog.js";

/** `path` and `body` as for inLots(); `verb` is what is done ("redriven"). Closes with whether anything was. */
export function BulkDialog({ title, words, action, verb, path, body, danger = false, onClose, children }) {
  const [state, set] = useState({ stage: "asked", sum: null, error: null });
  const stopped = useRef(false);
  const run = async () => {
    set({ stage: "going", sum: null, error: null });
    try {
      const sum = await inLots(path, body, {
        told: (sum) => set({ stage: "going", sum, error: null }), stopped: () => stopped.current,
      });
      set({ stage: "over", sum, error: null });
    } catch (error) {
      set((before) => ({ stage: "over", sum: before.sum, error }));
    }
  };
  const close = () => (state.stage === "going" ? (stopped.current = true) : onClose(state.stage === "over"));
  return html`<${Dialog} title=${title} onClose=${close}>
    <div class="body" aria-live="polite">
      ${state.stage === "asked" && html`${words}${children}`}
      ${state.stage === "going" && html`<p>${plural(state.sum?.done ?? 0, "job")} ${verb} so far…</p><progress aria-label=${title} />`}
      ${state.stage === "over" && state.sum && html`<${Sum} sum=${state.sum} verb=${verb} />`}
      ${state.error && html`<p class="error" role="alert">${state.error.message}</p>`}
    </div>
    <footer>
      ${state.stage === "asked" && html`<button onClick=${() => onClose(false)}>Leave it</button>
        <button class=${danger ? "danger" : "primary"} onClick=${run}>${action}</button>`}
      ${state.stage === "going" && html`<button onClick=${() => (stopped.current = true)}>Stop here</button>`}
      ${state.stage === "over" && html`<button class="primary" onClick=${() => onClose(true)}>Done</button>`}
    </footer>
  <//>`;
}

function Sum({ sum, verb }) {
  return html`<p><b>${plural(sum.done, "job")} ${verb}.</b>${!sum.over && " Stopped before the rest."}</p>
    ${sum.refused.length > 0 && html`<p>${plural(sum.refused.length, "job")} refused:</p>
      <ul>${reasons(sum.refused).map((one) => html`<li key=${one.detail}>${one.count} × ${one.detail}${" "}
        <a href=${jobLink(one.id)}>see one</a></li>`)}</ul>`}`;
}
