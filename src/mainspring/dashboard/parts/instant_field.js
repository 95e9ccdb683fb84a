// A field for an instant: typed in the viewer's time zone, and shown in UTC.
import { isUtc, utc, zone } from "../format.js";
import { html, useId } from "../html.js";

const FIELD = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });

/** The value of <input type="datetime-local"> for an instant (milliseconds or ISO text); "" for none. */
export const toFieldText = (at) => (at ? FIELD.format(new Date(at)).replace(" ", "T") : "");
/** The instant in the field as ISO text; null for none. */
export const toInstant = (text) => (text && !Number.isNaN(Date.parse(text)) ? new Date(text).toISOString() : null);

export function InstantField({ label, text, onText, required = false, hint, fault }) {
  const id = useId();
  const at = toInstant(text);
  const other = at && !isUtc(Date.parse(at));
  const read = other ? `${utc(Date.parse(at))}; typed in ${zone}` : (!at && hint) || `in ${zone}`;
  return html`<div class="field"><label for=${id}>${label}</label>
    <input id=${id} type="datetime-local" step="1" value=${text} required=${required} aria-describedby=${`${id}-hint`}
      aria-invalid=${Boolean(fault)} onInput=${(event) => onText(event.target.value)} />
    <p id=${`${id}-hint`} class=${fault ? "fault" : "hint"}>${fault ?? read}</p></div>`;
}
