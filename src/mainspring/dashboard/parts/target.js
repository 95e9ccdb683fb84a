// What an entry of the audit trail was done to, as a link where there is a page for it.
import { html } from "../html.js";
import { jobLink, scheduleLink } from "../route.js";

const PLACES = {
  jobs: jobLink, schedules: scheduleLink, queues: (name) => `queues/${encodeURIComponent(name)}`,
  workers: (id) => `workers/${encodeURIComponent(id)}`, webhooks: (name) => `webhooks/${encodeURIComponent(name)}`,
  triggers: () => "webhooks", keys: () => "keys",
};

/** A filter is written as JSON; it is no one thing. */
export function Target({ action, target }) {
  const place = PLACES[action.split(".")[0]];
  if (!target) return html`<span class="muted">all</span>`;
  if (/^[[{]/.test(target)) return html`<span>${inWords(target)}</span>`;
  return place ? html`<a href=${place(target)}>${target}</a>` : html`<code>${target}</code>`;
}

/** {"tasks": ["send", "bill"]} -> "tasks: send, bill"; what has been cut is left as it is. */
function inWords(filter) {
  try {
    const parts = Object.entries(JSON.parse(filter));
    return parts.map(([name, value]) => `${name}: ${[value].flat().join(", ")}`).join("; ");
  } catch {
    return filter;
  }
}
