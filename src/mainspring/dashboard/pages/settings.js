// /settings: the settings of this server, and the source of each value.
import { get } from "../api.js";
import { bytes, duration, plural } from "../format.js";
import { html, useState } from "../html.js";
import { useData } from "../live.js";
import { Columns } from "../parts/columns.js";
import { LoadMore, useRowLimit } from "../parts/load_more.js";
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
    <p class="muted">The settings of this server's process. Worker processes may have other values.
      Secrets are hidden.</p>
    <div class="row settings-find">
      <input type="search" value=${text} aria-label="Find a setting" placeholder="Find a setting"
        onInput=${(event) => search(event.target.value)} />
      <label><input type="checkbox" checked=${changed} onChange=${(event) => narrow(event.target.checked)} />${" "}
        only those that differ from the default</label></div>
    <${Loaded} data=${data}>${({ items }) => html`<${Table} items=${filterSettings(items, text, changed)} />`}<//>`;
}

const filterSettings = (items, text, changed) => items.filter((one) =>
  (!changed || one.source !== "default") && `${one.name} ${one.meaning}`.toLowerCase().includes(text.toLowerCase()));

function Table({ items: all }) {
  const [shown, showMore] = useRowLimit("settings");
  const items = all.slice(0, shown);
  if (!items.length) return html`<${Empty} title="No setting matches" />`;
  return html`<div class="table"><table>
    <${Columns} of=${["Setting", "Value", "From", "What it does"]} />
    <tbody>${items.map((one) => html`<tr key=${one.name}>
      <td data-label="" class="nowrap"><code>${one.name}</code></td>
      <td data-label="Value" class="settings-value">${isEmpty(one.value)
        ? html`<span class="muted">empty</span>` : html`<code>${valueText(one)}</code>`}</td>
      <td data-label="From" class="nowrap"><span class=${one.source === "default" ? "muted" : ""}
        title=${TITLES[one.source] ?? one.variable}>${SOURCES[one.source]}</span>
        ${one.source === "environment" && html`<div class="small muted">${one.variable}</div>`}</td>
      <td data-label="What it does" class="settings-meaning"><span>${withCode(one.meaning)}</span></td>
    </tr>`)}</tbody></table></div>
    ${all.length > shown && html`<${LoadMore} onMore=${showMore} />`}`;
}

/** The text with parts between `backquotes` as code. */
const withCode = (text) => text.split("`").map((part, n) => (n % 2 ? html`<code>${part}</code>` : part));

const isEmpty = (value) => value === "" || (Array.isArray(value) && !value.length);

function valueText({ value, unit }) {
  if (unit === "bytes") return Number(value) ? bytes(Number(value)) : "0";
  if (unit === "seconds") return Number(value) ? duration(value) : "0 s";
  if (unit) return plural(Number(value), unit.slice(0, -1));
  if (typeof value === "boolean") return value ? "on" : "off";
  return Array.isArray(value) ? value.join(", ") : String(value);
}
