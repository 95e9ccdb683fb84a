// The scopes of an API key: the resources that it may read or write.
import { html } from "../html.js";

const NOUNS = [
  "jobs", "dead", "schedules", "scheduler", "queues", "workers", "webhooks", "triggers",
  "keys", "audit", "cron", "events", "executions", "metrics", "settings", "stats", "tasks",
];
/** Resources without write operations. */
const READ_ONLY = ["audit", "cron", "events", "executions", "metrics", "settings", "stats", "tasks"];

/** Whether `within` includes the scope. Write access includes read access. */
const isWithin = (within, scope) =>
  !within || within.includes(scope) || within.includes(scope.replace(/:read$/, ":write"));

/** `scopes` is null for everything that the role allows. `within` are the scopes of the key that creates it. */
export function Scopes({ scopes, onScopes, within }) {
  const without = (scope) => scopes.filter((one) => one !== scope);
  const turn = (scope) => (event) => onScopes(event.target.checked ? [...scopes, scope] : without(scope));
  const box = (noun, verb, words) => {
    const scope = `${noun}:${verb}`;
    const implied = verb === "read" && scopes.includes(`${noun}:write`);
    return html`<input type="checkbox" aria-label=${`${words} ${noun}`} checked=${implied || scopes.includes(scope)}
      disabled=${implied || !isWithin(within, scope)} onChange=${turn(scope)} />`;
  };
  return html`<fieldset><legend>Scopes</legend>
    <label class="choice"><input type="radio" name="all" checked=${scopes === null} disabled=${Boolean(within)}
      onChange=${() => onScopes(null)} /> everything the role allows</label>
    <label class="choice"><input type="radio" name="all" checked=${scopes !== null}
      onChange=${() => onScopes([])} /> only these scopes</label>
    ${scopes !== null && html`<div class="scopes">${[NOUNS.slice(0, 8), NOUNS.slice(8)].map((some, n) => html`<table
      key=${n}>
      <thead><tr><th scope="col">Resource</th><th scope="col">Read</th><th scope="col">Write</th></tr></thead>
      <tbody>${some.map((noun) => html`<tr key=${noun}><th scope="row">${noun}</th>
        <td>${box(noun, "read", "Read")}</td>
        <td>${!READ_ONLY.includes(noun) && box(noun, "write", "Write")}</td></tr>`)}</tbody>
    </table>`)}</div>`}
  </fieldset>`;
}
