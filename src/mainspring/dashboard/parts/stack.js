// A failure: what it was, and the stack trace, folded.
import { html } from "../html.js";
import { Icon } from "./icons.js";
import { toast } from "./toast.js";

export function Stack({ failure, name = "Stack trace", open = false }) {
  const copy = async () => (await navigator.clipboard.writeText(failure.stack), toast("Copied."));
  return html`<div class="failure">
    <p><b class="state state-dead">${failure.type}</b>${" "}<span class="failure-message">${failure.message}</span></p>
    ${failure.stack && html`<details open=${open}><summary>${name}</summary>
      <div class="stack-text"><button type="button" class="quiet" aria-label="Copy the stack trace" title="Copy" onClick=${copy}><${Icon} name="copy" /></button>
      <pre class="code" tabindex="0" aria-label=${name}>${failure.stack}</pre></div></details>`}
  </div>`;
}
