// A secret that is told once, and how it is used.
import { html } from "../html.js";
import { Copy } from "./copy.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icons.js";

/** `code` is an example with the secret in it. */
export function Secret({ title, secret, words, code, onClose }) {
  return html`<${Dialog} title=${title} onClose=${onClose} wide>
    <div class="body">
      <p class="notice"><${Icon} name="warning" /><span>This is the only time that it is shown. Keep it where secrets are kept.</span></p>
      <div class="secret"><code>${secret}</code><${Copy} text=${secret} label="Copy the secret" /></div>
      ${words && html`<p>${words}</p>`}
      ${code && html`<div class="example"><div class="row"><h3>For example</h3><${Copy} text=${code} label="Copy the example" /></div>
        <pre class="code" tabindex="0">${code}</pre></div>`}
    </div>
    <footer><button class="primary" onClick=${onClose}>I have kept it</button></footer>
  <//>`;
}
