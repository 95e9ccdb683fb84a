// The header row of a table.
import { html } from "../html.js";

/** `of` are column names; "#Runs" is a column of numbers, "" the column of actions. */
export function Columns({ of: names }) {
  return html`<thead><tr>${names.map((name) => html`
    <th key=${name} scope="col" class=${name.startsWith("#") ? "number" : ""}>
      ${name ? name.replace("#", "") : html`<span class="unseen">Actions</span>`}</th>`)}</tr></thead>`;
}
