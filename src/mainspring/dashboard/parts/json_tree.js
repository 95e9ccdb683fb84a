// JSON as a collapsible tree. Large integers keep all their digits.
import { LosslessNumber, stringify } from "../lossless_json.js";
import { html, useState } from "../html.js";
import { CopyButton } from "./copy_button.js";

const OPEN_LEVELS = 3; // expanded at first
const PAGE_MEMBERS = 100; // shown at first, and added by "more"

/** `depth`: as if it were so deep in another value; without a button. */
export function JsonTree({ value, name = "value", depth = 0 }) {
  return html`<div class="tree" role="group" aria-label=${name}>
    ${!depth && html`<${CopyButton} text=${() => stringify(value, "  ")} name=${`${name} as JSON`} />`}
    <${Node} value=${value} depth=${depth} />
  </div>`;
}

function Node({ name, value, depth }) {
  const label = name === undefined ? null : html`<span class="tree-name">${name}</span>${": "}`;
  if (value === null || typeof value !== "object" || value instanceof LosslessNumber) {
    return html`<div class="tree-leaf">${label}<${Leaf} value=${value} /></div>`;
  }
  const entries = Array.isArray(value) ? value.map((one, n) => [n, one]) : Object.entries(value);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  if (!entries.length) return html`<div class="tree-leaf">${label}<span class="muted">${open}${close}</span></div>`;
  const words = `${open} ${entries.length} ${close}`;
  return html`<details open=${depth < OPEN_LEVELS && entries.length <= PAGE_MEMBERS}>
    <summary>${label}<span class="muted">${words}</span></summary>
    <${Members} entries=${entries} depth=${depth + 1} />
  </details>`;
}

function Members({ entries, depth }) {
  const [shown, set] = useState(PAGE_MEMBERS);
  return html`<div class="tree-members">
    ${entries.slice(0, shown).map(([name, one]) => html`
      <${Node} key=${name} name=${name} value=${one} depth=${depth} />`)}
    ${entries.length > shown && html`<button type="button" onClick=${() => set(shown + PAGE_MEMBERS)}>
      ${entries.length - shown} more</button>`}
  </div>`;
}

function Leaf({ value }) {
  const kind = value === null ? "null" : value instanceof LosslessNumber ? "number" : typeof value;
  return html`<span class=${`tree-${kind}`}>${kind === "string" ? JSON.stringify(value) : String(value)}</span>`;
}
