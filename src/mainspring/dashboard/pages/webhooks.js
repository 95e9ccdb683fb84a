// /webhooks: outbound webhooks, and inbound triggers.
import { get } from "../api.js";
import { html, useState } from "../html.js";
import { useData } from "../live.js";
import { Columns } from "../parts/columns.js";
import { Icon } from "../parts/icons.js";
import { Empty, Head, Loaded } from "../parts/page.js";
import { Secret } from "../parts/secret.js";
import { Time } from "../parts/time.js";
import { Triggers } from "../parts/triggers.js";
import { example, WebhookActions, WebhookForm, webhookLink, WebhookState } from "../parts/webhook.js";
import { useSession } from "../session.js";

export function Webhooks() {
  const session = useSession();
  if (!session.sees("webhooks") && !session.sees("triggers")) return html`<${Head} title="Webhooks" />
    <${Empty} title="Your key has neither the scope webhooks:read nor triggers:read" />`;
  return html`<${Head} title="Webhooks" /><div class="stack">
    ${session.sees("webhooks") && html`<${Outbound} may=${session.may("admin", "webhooks")} />`}
    ${session.sees("triggers") && html`<${Triggers} may=${session.may("admin", "triggers")} />`}</div>`;
}

function Outbound({ may }) {
  const data = useData((signal) => get("webhooks", {}, signal), [], { every: 5 });
  const [making, make] = useState(false);
  const [made, showSecret] = useState(null);
  const closed = (answer) => (make(false), answer && (showSecret(answer), data.reload()));
  return html`<section aria-labelledby="outbound"><div class="head"><h2 id="outbound">Outbound webhooks</h2>
      <div class="actions">${may && html`<button onClick=${() => make(true)}>
        <${Icon} name="plus" /> New webhook</button>`}</div></div>
    <${Loaded} data=${data}>${(hooks) => (hooks.length ? html`<${Table} hooks=${hooks} after=${data.reload} />`
      : html`<${Empty} title="No webhooks yet"
        code="mainspring webhooks create pager URL --event job.dead">
        A webhook is a URL and a list of events; workers post these events to it.<//>`)}<//>
    ${making && html`<${WebhookForm} onClose=${closed} />`}
    ${made && html`<${Secret} title=${`The secret of ${made.webhook.name}`} secret=${made.secret}
      code=${example(made.secret)} onClose=${() => showSecret(null)}
      words="Messages are signed with it, as Standard Webhooks specifies. Receivers verify the signature first:" />`}
  </section>`;
}

function Table({ hooks, after }) {
  return html`<div class="table"><table>
    <${Columns} of=${["Webhook", "State", "Events", "Delivered", "Failures in a row", ""]} />
    <tbody>${hooks.map((hook) => html`<tr key=${hook.name}>
      <td data-label="" class="name"><span><a href=${webhookLink(hook.name)}><b>${hook.name}</b></a><br />
        <span class="muted url">${hook.url}</span></span></td>
      <td data-label="State"><${WebhookState} of=${hook} /></td>
      <td class="events" data-label="Events"><span>${hook.events.map((event) => html`<span class="tag"
        key=${event}>${event}</span> `)}</span></td>
      <td class="nowrap" data-label="Delivered">${hook.delivered_at ? html`<${Time}
        at=${hook.delivered_at} />` : html`<span class="muted">never</span>`}</td>
      <td data-label="Failures in a row"><span>${hook.failures
        ? html`<span class="bad">${hook.failures}</span> <span class="muted">${hook.error}</span>` : html`<span
          class="muted">0</span>`}</span></td>
      <td class="tight" data-label=""><${WebhookActions} hook=${hook}
        after=${after} brief /></td></tr>`)}</tbody></table></div>`;
}
