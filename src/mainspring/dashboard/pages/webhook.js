// /webhooks/{name}: one webhook and its deliveries.
import { get, segment } from "../api.js";
import { plural } from "../format.js";
import { html } from "../html.js";
import { useData } from "../live.js";
import { Columns } from "../parts/columns.js";
import { Icon } from "../parts/icons.js";
import { Facts, Head, Loaded } from "../parts/page.js";
import { State } from "../parts/state.js";
import { Span, Time } from "../parts/time.js";
import { WebhookActions, webhookLink, WebhookState } from "../parts/webhook.js";
import { jobLink, link, useRoute } from "../route.js";
import { useSession } from "../session.js";

export function Webhook({ id }) {
  const session = useSession();
  const after = useRoute().query.get("after");
  const load = async (signal) => {
    const path = `webhooks/${segment(id)}`;
    const [hook, deliveries] = await Promise.all([
      get(path, {}, signal), get(`${path}/deliveries`, { after, limit: 50 }, signal),
    ]);
    return { hook, deliveries };
  };
  const data = useData(load, [id, after], { every: after ? 0 : 3 });
  const hook = data.value?.hook;
  return html`<nav class="crumbs" aria-label="Where this is"><a href="webhooks">Webhooks</a></nav>
    <${Head} title=${id} actions=${hook && html`<${WebhookActions} hook=${hook}
      after=${data.reload} />`}>${hook && html`<${WebhookState} of=${hook} />`}<//>
    <${Loaded} data=${data}>${({ hook, deliveries }) => html`<${About} hook=${hook} />
      <section class="below"><h2>Deliveries</h2>
        <${Deliveries} page=${deliveries} id=${id} after=${after} sees=${session.sees("jobs")} /></section>`}<//>`;
}

const all = (given) => (given ? given.join(", ") : html`<span class="muted">all</span>`);

function About({ hook }) {
  return html`${hook.disabled_at && html`<p class="notice"><${Icon} name="pause" />
    <span>Disabled <${Time} at=${hook.disabled_at} />${hook.disabled_reason && `: ${hook.disabled_reason}`}</span></p>`}
    ${hook.failures > 0 && html`<p class="trouble" role="status"><${Icon} name="warning" />
      <span>${plural(hook.failures, "failure")} in a row, the last <${Time}
      at=${hook.failed_at} />: ${hook.error}</span></p>`}
    <div class="card"><${Facts} of=${[
      ["URL", html`<code>${hook.url}</code>`], ["Events", hook.events.join(", ")],
      ["Queues", all(hook.queues)], ["Tasks", all(hook.tasks)],
      ["Tags", hook.tags ? hook.tags.join(", ") : html`<span class="muted">any</span>`],
      ["Included", hook.include.join(", ") || html`<span class="muted">nothing else</span>`],
      ["Last delivery", html`<${Time} at=${hook.delivered_at} />`], ["Created", html`<${Time}
        at=${hook.created_at} />`], ["Note", hook.note || undefined],
    ]} /></div>`;
}

function Deliveries({ page, id, after, sees }) {
  if (!page.items.length) return html`<p class="muted">None yet. Test it, or wait for one of its events.</p>`;
  return html`<div class="table"><table>
    <${Columns} of=${["Delivery", "State", "#Attempt", "Created", "Took", "Error"]} />
    <tbody>${page.items.map((job) => html`<tr key=${job.id}>
      <td data-label="Delivery">${sees ? html`<a href=${jobLink(job.id)}>
        <code>${job.id}</code></a>` : html`<code>${job.id}</code>`}</td>
      <td data-label="State"><${State} of=${job.shown} /></td>
        <td class="number" data-label="Attempt">${job.attempt}</td>
      <td class="nowrap" data-label="Created"><${Time} at=${job.created_at} /></td>
      <td class="nowrap" data-label="Took">${job.finished_at ? html`<${Span} from=${job.created_at}
        until=${job.finished_at} />` : html`<span class="muted">–</span>`}</td>
      <td data-label="Error">${job.message ?? html`<span class="muted">–</span>`}</td></tr>`)}</tbody></table></div>
    <nav class="pager" aria-label="Pages of this list"><span class="muted">Newest first</span>
      ${after && html`<a class="button" href=${webhookLink(id)}><${Icon} name="back" /> First page</a>`}
      ${page.next && html`<a class="button" href=${link(webhookLink(id), { after: page.next })}>Next page <${Icon}
        name="next" /></a>`}</nav>`;
}
