// A button that copies a text, and says so in its own place: a toast would be behind a dialog.
import { html, useEffect, useState } from "../html.js";
import { Icon } from "./icons.js";

const SAYS = 2500;

/** `label` names what is copied: "Copy the secret". */
export function Copy({ text, label, children = "Copy" }) {
  const [said, say] = useState("");
  useEffect(() => {
    const timer = said && setTimeout(() => say(""), SAYS);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = () => navigator.clipboard.writeText(text).then(() => say("Copied"), () => say("Select it, and copy it yourself"));
  return html`<button type="button" class="copy-text" aria-label=${label} title=${label} onClick=${copy}>
    <${Icon} name=${said === "Copied" ? "completed" : "copy"} /><span aria-live="polite">${said || children}</span></button>`;
}
