// The target of an audit entry, as a link if it has a page.
import { html } from "../html.js";
import { jobLink, scheduleLink } from "../route.js";

const LINKS = {
  jobs: jobLink, schedules: scheduleLink, queues: (name) => `queues/${encodeURIComponent(name)}`,
  workers: (id) => `workers/${encodeURIComponent(id)}`, webhooks: (name) => `webhooks/${encodeURIComponent(name)}`,
  triggers: () => "webhooks", keys: () => "keys",
};

/** `text` is the target in words; it differs from `target` for a filter, which has no page. */
export function AuditTarget({ action, target, text }) {
  const place = LINKS[action.split(".")[0]];
  if (!target) return html`<span class="muted">all</span>`;
  if (text !== target) return html`<span>${text}</span>`;
  return place ? html`<a href=${place(target)}>${target}</a>` : html`<code>${target}</code>`;
}
