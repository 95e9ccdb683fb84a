// What an entry of the audit trail was done to, as a link where there is a page for it.
import { html } from "../html.js";
import { jobLink, scheduleLink } from "../route.js";

const PLACES = {
  jobs: jobLink, schedules: scheduleLink, queues: (name) => `queues/${encodeURIComponent(name)}`,
  workers: (id) => `workers/${encodeURIComponent(id)}`, webhooks: (name) => `webhooks/${encodeURIComponent(name)}`,
  triggers: () => "webhooks", keys: () => "keys",
};

/** A filter has words of its own; it is no one thing. */
export function Target({ action, target, text }) {
  const place = PLACES[action.split(".")[0]];
  if (!target) return html`<span class="muted">all</span>`;
  if (text !== target) return html`<span>${text}</span>`;
  return place ? html`<a href=${place(target)}>${target}</a>` : html`<code>${target}</code>`;
}
