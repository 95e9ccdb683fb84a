// The dialog that shows a new secret once, with an example.
import { html, useState } from "../html.js";
import { copyText } from "./copy_button.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icons.js";

/** `code` is an example with the secret in it. */
export function Secret({ title, secret, words, code, onClose }) {
  return html`<${Dialog} title=${title} onClose=${onClose} wide>
    <div class="body">
      <p class="notice"><${Icon} name="warning" />
        <span>It is shown only once. Copy it to your secret store now.</span></p>
      <${Copied} label="Copy the secret" text=${secret} />
      ${words && html`<p>${words}</p>`}
      ${code && html`<h3>Example</h3><${Copied} label="Copy the example" text=${code} />`}
    </div>
    <footer><button class="primary" onClick=${onClose}>Done</button></footer>
  <//>`;
}

/** A text with a copy button, which itself confirms the copy: a toast would be behind the dialog. */
function Copied({ text, label }) {
  const [done, set] = useState(false);
  const act = () => copyText(text).then(() => set(true));
  return html`<div class="secret"><pre class="code" tabindex="0"
    aria-label=${label.replace("Copy t", "T")}>${text}</pre>
    <button type="button" aria-label=${label} onClick=${act}><${Icon} name=${done ? "completed" : "copy"} />
      <span aria-live="polite">${done ? "Copied" : "Copy"}</span></button></div>`;
}
