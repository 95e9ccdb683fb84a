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
  const many = !target || /^[[{]/.test(target);
  if (!target) return html`<span class="muted">all</span>`;
  return place && !many ? html`<a href=${place(target)}>${target}</a>` : html`<code>${target}</code>`;
}
