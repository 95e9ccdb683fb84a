// Text into the clipboard, also where the browser lends none because the page came without TLS.
import { html } from "../html.js";
import { Icon } from "./icons.js";
import { toast } from "./toast.js";

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    byHand(text);
  }
  toast("Copied.");
}

function byHand(text) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "unseen";
  const place = document.querySelector("dialog[open]") ?? document.body; // what is behind a dialog takes no focus
  const before = document.activeElement;
  place.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
  before?.focus();
}

/** `text` may be a function that makes it; `name` says what it is: "Copy the id". */
export function Copy({ text, name, words }) {
  const label = `Copy ${name}`;
  return html`<button type="button" class="quiet copy" aria-label=${label} title=${label}
      onClick=${() => copy(typeof text === "function" ? text() : text)}>
    <${Icon} name="copy" />${words}</button>`;
}
