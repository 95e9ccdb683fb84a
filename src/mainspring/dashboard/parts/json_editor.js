// A field for JSON, which says where it is wrong.
import { parse } from "../exact.js";
import { html, useId } from "../html.js";

/** What is wrong with a text that should be a JSON object (or any JSON with `any`); null if nothing. */
export function fault(text, { any = false } = {}) {
  try {
    const value = parse(text);
    const object = value !== null && typeof value === "object" && !Array.isArray(value);
    return any || object ? null : "This has to be an object: {\"name\": value, …}";
  } catch (error) {
    return error.message;
  }
}

/** `text` and `onText`; send it with `new Raw(text)`, so that numbers stay as they were written. */
export function JsonEditor({ label, text, onText, any = false, rows = 8 }) {
  const id = useId();
  const wrong = fault(text, { any });
  return html`<div class="field">
    <label for=${id}>${label}</label>
    <textarea id=${id} class="code" rows=${rows} spellcheck=${false} autocomplete="off" aria-invalid=${wrong !== null}
      aria-describedby=${`${id}-fault`} value=${text} onInput=${(event) => onText(event.target.value)}></textarea>
    <p id=${`${id}-fault`} class="fault" role="alert">${wrong}</p>
  </div>`;
}
