// A button that copies text to the clipboard, also in pages without TLS, where browsers offer no clipboard API.
import { html } from "../html.js";
import { Icon } from "./icons.js";
import { toast } from "./toast.js";

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copyWithoutClipboard(text);
  }
  toast("Copied.");
}

function copyWithoutClipboard(text) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "unseen";
  const place = document.querySelector("dialog[open]") ?? document.body; // a dialog keeps the focus
  const before = document.activeElement;
  place.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
  before?.focus();
}

/** `text` may be a function that returns it; `name` completes the label: "Copy the id". */
export function CopyButton({ text, name, words }) {
  const label = `Copy ${name}`;
  return html`<button type="button" class="quiet copy" aria-label=${label} title=${label}
      onClick=${() => copyText(typeof text === "function" ? text() : text)}>
    <${Icon} name="copy" />${words}</button>`;
}
