// A dead job on its way again, with arguments put right.
import { post } from "../api.js";
import { Raw, stringify } from "../exact.js";
import { html, useState } from "../html.js";
import { Dialog } from "./dialog.js";
import { fault, JsonEditor } from "./json_editor.js";
import { toast } from "./toast.js";

/** `job` with its payload. Closes with whether it was redriven. */
export function RedriveDialog({ job, onClose }) {
  const [text, setText] = useState(() => stringify(job.payload ?? {}, "  "));
  const [state, set] = useState({ busy: false, error: null });
  const run = async (event) => {
    event.preventDefault();
    set({ busy: true, error: null });
    try {
      const { done, refused } = await post("dead/redrive", { ids: [job.id], arguments: new Raw(text) });
      if (!done) throw new Error(refused[0]?.detail ?? "It is not dead any more.");
      toast("Redriven: it is pending again, with all its retries.");
      onClose(true);
    } catch (error) {
      set({ busy: false, error });
    }
  };
  return html`<${Dialog} title="Edit and redrive" onClose=${() => onClose(false)}>
    <form onSubmit=${run}>
      <p class="muted">${job.task} · it keeps its id and its history, and its attempts are counted anew.</p>
      <${JsonEditor} label="Arguments" text=${text} onText=${setText} rows=${Math.min(18, text.split("\n").length + 2)} />
      ${state.error && html`<p class="error" role="alert">${state.error.message}</p>`}
      <footer><button type="button" onClick=${() => onClose(false)}>Leave it</button>
        <button class="primary" disabled=${state.busy || fault(text) !== null}>${state.busy ? "Working…" : "Redrive"}</button></footer>
    </form>
  <//>`;
}
