// A field for an instant: typed on the viewer's clock, and read back in UTC.
import { isUtc, utc, zone } from "../format.js";
import { html, useId } from "../html.js";

const FIELD = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });

/** Of an instant (milliseconds or ISO text), as <input type="datetime-local"> has it; "" for none. */
export const typed = (at) => (at ? FIELD.format(new Date(at)).replace(" ", "T") : "");
/** The instant as ISO text; null for none. */
export const instant = (text) => (text && !Number.isNaN(Date.parse(text)) ? new Date(text).toISOString() : null);

export function Moment({ label, text, onText, required = false, hint, fault }) {
  const id = useId();
  const at = instant(text);
  const other = at && !isUtc(Date.parse(at));
  const read = other ? `${utc(Date.parse(at))}; typed in ${zone}` : (!at && hint) || `in ${zone}`;
  return html`<div class="field"><label for=${id}>${label}</label>
    <input id=${id} type="datetime-local" step="1" value=${text} required=${required} aria-describedby=${`${id}-hint`}
      aria-invalid=${Boolean(fault)} onInput=${(event) => onText(event.target.value)} />
    <p id=${`${id}-hint`} class=${fault ? "fault" : "hint"}>${fault ?? read}</p></div>`;
}
