// The head of a table.
import { html } from "../html.js";

/** Names of columns; "#Runs" is one of numbers, and "" that of the actions. */
export function Columns({ of: names }) {
  return html`<thead><tr>${names.map((name) => html`
    <th key=${name} scope="col" class=${name.startsWith("#") ? "number" : ""}>
      ${name ? name.replace("#", "") : html`<span class="unseen">Actions</span>`}</th>`)}</tr></thead>`;
}
