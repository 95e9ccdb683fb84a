// A text field for JSON, with an error message.
import { parse } from "../lossless_json.js";
import { html, useId, useState } from "../html.js";

const PLACEHOLDER = /<[^<>"]*>/; // of argumentsTemplate(): not valid in JSON outside of a string
const TEXT = /"(?:[^"\\]|\\.)*"/g;

/** The error in a text that should be a JSON object (or any JSON with `any`). null if there is none. */
export function fault(text, { any = false } = {}) {
  if (!text.trim()) return "Write a JSON object: {\"name\": value, …}";
  const open = PLACEHOLDER.exec(text.replace(TEXT, '""'));
  if (open) return `Replace ${open[0]} with a value.`;
  try {
    const value = parse(text);
    const object = value !== null && typeof value === "object" && !Array.isArray(value);
    return any || object ? null : "This has to be an object: {\"name\": value, …}";
  } catch (error) {
    return error.message;
  }
}

/**
 * Send the text with `new Raw(text)`, so that numbers do not change. The error is shown once the text was edited;
 * before that, `hint`.
 */
export function JsonEditor({ label, text, onText, any = false, rows = 8, placeholder, hint }) {
  const id = useId();
  const [first] = useState(text);
  const wrong = fault(text, { any });
  const shown = text === first ? null : wrong;
  return html`<div class="field">
    <label for=${id}>${label}</label>
    <textarea id=${id} class="code" rows=${rows} spellcheck=${false} autocomplete="off" aria-invalid=${shown !== null}
      aria-describedby=${`${id}-fault`} value=${text} placeholder=${placeholder}
      onInput=${(event) => onText(event.target.value)}></textarea>
    ${hint && shown === null && html`<p class="hint">${hint}</p>`}
    <p id=${`${id}-fault`} class="fault" role="alert">${shown}</p>
  </div>`;
}
