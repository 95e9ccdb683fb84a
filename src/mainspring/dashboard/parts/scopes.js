// Which nouns of the API a key may see, and which it may change.
import { html } from "../html.js";

/** Those that nothing can be changed of have no write. */
const NOUNS = {
  jobs: true, dead: true, schedules: true, scheduler: true, queues: true, workers: true, webhooks: true, triggers: true, keys: true,
  audit: false, cron: false, events: false, executions: false, metrics: false, stats: false, tasks: false,
};

const covers = (within, scope) => !within || within.includes(scope) || (scope.endsWith(":read") && within.includes(scope.replace(":read", ":write")));

/** `scopes`: null is all that the role may. `within` are those of whoever makes it. */
export function Scopes({ scopes, onScopes, within }) {
  const turn = (scope) => (event) => onScopes(event.target.checked ? [...scopes, scope] : scopes.filter((one) => one !== scope));
  const box = (noun, verb, words) => {
    const scope = `${noun}:${verb}`;
    const implied = verb === "read" && scopes.includes(`${noun}:write`);
    return html`<input type="checkbox" aria-label=${`${words} ${noun}`} checked=${implied || scopes.includes(scope)}
      disabled=${implied || !covers(within, scope)} onChange=${turn(scope)} />`;
  };
  return html`<fieldset><legend>Scopes</legend>
    <label class="choice"><input type="radio" name="all" checked=${scopes === null} disabled=${Boolean(within)} onChange=${() => onScopes(null)} /> no limits beyond that</label>
    <label class="choice"><input type="radio" name="all" checked=${scopes !== null} onChange=${() => onScopes([])} /> only what is ticked here</label>
    ${scopes !== null && html`<table class="scopes"><thead><tr><th scope="col">Noun</th><th scope="col">See</th><th scope="col">Change</th></tr></thead>
      <tbody>${Object.entries(NOUNS).map(([noun, written]) => html`<tr key=${noun}><th scope="row">${noun}</th>
        <td>${box(noun, "read", "See")}</td><td>${written && box(noun, "write", "Change")}</td></tr>`)}</tbody></table>`}
  </fieldset>`;
}
