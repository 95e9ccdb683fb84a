// JSON as a tree that folds. Strings stay text, big integers exact.
import { Exact, stringify } from "../exact.js";
import { html, useState } from "../html.js";
import { Copy } from "./copy.js";

const OPEN = 3; // levels open at first
const MANY = 100; // members shown at first

export function Tree({ value, name = "value" }) {
  return html`<div class="tree" role="group" aria-label=${name}>
    <${Copy} text=${() => stringify(value, "  ")} name=${`${name} as JSON`} />
    <${Node} value=${value} depth=${0} />
  </div>`;
}

function Node({ name, value, depth }) {
  const label = name === undefined ? null : html`<span class="tree-name">${name}</span>${": "}`;
  if (value === null || typeof value !== "object" || value instanceof Exact) {
    return html`<div class="tree-leaf">${label}<${Leaf} value=${value} /></div>`;
  }
  const entries = Array.isArray(value) ? value.map((one, n) => [n, one]) : Object.entries(value);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  if (!entries.length) return html`<div class="tree-leaf">${label}<span class="muted">${open}${close}</span></div>`;
  const words = `${open} ${entries.length} ${close}`;
  return html`<details open=${depth < OPEN && entries.length <= MANY}>
    <summary>${label}<span class="muted">${words}</span></summary>
    <${Members} entries=${entries} depth=${depth + 1} />
  </details>`;
}

function Members({ entries, depth }) {
  const [shown, set] = useState(MANY);
  return html`<div class="tree-members">
    ${entries.slice(0, shown).map(([name, one]) => html`
      <${Node} key=${name} name=${name} value=${one} depth=${depth} />`)}
    ${entries.length > shown && html`<button type="button" onClick=${() => set(shown + MANY)}>
      ${entries.length - shown} more</button>`}
  </div>`;
}

function Leaf({ value }) {
  const kind = value === null ? "null" : value instanceof Exact ? "number" : typeof value;
  return html`<span class=${`tree-${kind}`}>${kind === "string" ? JSON.stringify(value) : String(value)}</span>`;
}
