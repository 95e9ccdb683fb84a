// /settings: what this server was started with, and where each value came from.
import { get } from "../api.js";
import { html, useState } from "../html.js";
import { useData } from "../live.js";
import { Columns } from "../parts/columns.js";
import { Empty, Head, Loaded } from "../parts/page.js";

const SOURCES = { argument: "argument", environment: "environment", default: "default" };
const TITLES = {
  argument: "given to Mainspring(…) in code, or on the command line", default: "nothing else was given",
};

export function Settings() {
  const data = useData((signal) => get("settings", {}, signal), []);
  const [text, search] = useState("");
  const [changed, narrow] = useState(false);
  return html`<${Head} title="Settings" />
    <p class="muted">Of this server's process. Workers are other processes and may have been started with others.
      Secrets are not shown.</p>
    <div class="row settings-find">
      <input type="search" value=${text} aria-label="Find a setting" placeholder="Find a setting"
        onInput=${(event) => search(event.target.value)} />
      <label><input type="checkbox" checked=${changed} onChange=${(event) => narrow(event.target.checked)} />${" "}
        only those that are not at their default</label></div>
    <${Loaded} data=${data}>${({ items }) => html`<${Table} items=${found(items, text, changed)} />`}<//>`;
}

const found = (items, text, changed) => items.filter((one) =>
  (!changed || one.source !== "default") && `${one.name} ${one.meaning}`.toLowerCase().includes(text.toLowerCase()));

function Table({ items }) {
  if (!items.length) return html`<${Empty} title="No setting fits" />`;
  return html`<div class="table"><table>
    <${Columns} of=${["Setting", "Value", "From", "What it does"]} />
    <tbody>${items.map((one) => html`<tr key=${one.name}>
      <td data-label="Setting"><code>${one.name}</code></td>
      <td data-label="Value"><code class="settings-value">${words(one.value)}</code></td>
      <td data-label="From"><span class=${one.source === "default" ? "muted" : ""}
        title=${TITLES[one.source] ?? one.variable}>${SOURCES[one.source]}</span>
        ${one.source === "environment" && html`<div class="small muted">${one.variable}</div>`}</td>
      <td data-label="What it does">${one.meaning}</td></tr>`)}</tbody></table></div>`;
}

function words(value) {
  if (value === "" || (Array.isArray(value) && !value.length)) return "empty";
  if (typeof value === "boolean") return value ? "on" : "off";
  return Array.isArray(value) ? value.join(", ") : String(value);
}
