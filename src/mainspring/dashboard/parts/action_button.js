// A button that calls the API: busy during the call, with a message if it fails.
import { html, useState } from "../html.js";
import { Icon } from "./icons.js";
import { toast } from "./toast.js";

/** `run` is async; a text that it returns is shown. The busy button is not disabled, since it would lose the focus. */
export function ActionButton({ run, icon, label, children, kind = "", disabled = false, title }) {
  const [busy, set] = useState(false);
  const act = async () => {
    if (busy) return;
    set(true);
    try {
      const words = await run();
      if (typeof words === "string") toast(words);
    } catch (error) {
      toast(error.message, "bad");
    } finally {
      set(false);
    }
  };
  return html`<button type="button" class=${kind} disabled=${disabled} aria-disabled=${busy} aria-busy=${busy}
      aria-label=${label} title=${title ?? label} onClick=${act}>
    ${icon && html`<${Icon} name=${icon} />`}${children}</button>`;
}
