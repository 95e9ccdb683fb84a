// /keys: API keys: create, list and revoke them.
import { get, post, remove, segment } from "../api.js";
import { useNow } from "../clock.js";
import { html, useState } from "../html.js";
import { useData } from "../live.js";
import { Columns } from "../parts/columns.js";
import { confirm } from "../parts/dialog.js";
import { Choice, Field, FormDialog } from "../parts/form.js";
import { Icon } from "../parts/icons.js";
import { Empty, Head, Loaded } from "../parts/page.js";
import { Scopes } from "../parts/scopes.js";
import { Secret } from "../parts/secret.js";
import { Time } from "../parts/time.js";
import { toast } from "../parts/toast.js";
import { link } from "../route.js";
import { useSession } from "../session.js";

const ROLES = [
  ["viewer", "viewer: read only"], ["operator", "operator: also runs, cancels, pauses, edits"],
  ["admin", "admin: also keys and webhooks"],
];
const EXPIRIES = [
  ["1d", "in a day"], ["7d", "in a week"], ["30d", "in 30 days"], ["90d", "in 90 days"], ["365d", "in a year"],
  ["", "never"],
];
const SOON_MS = 7 * 86400 * 1000;
const FIRST_RUN = "first-start"; // the name of a principal that signed in with the token of a first run

export function Keys() {
  const session = useSession();
  const data = useData((signal) => get("keys", {}, signal), [], { every: 15 });
  const [making, make] = useState(false);
  const [made, showSecret] = useState(null);
  const closed = (answer) => (make(false), answer && (showSecret(answer), data.reload()));
  const may = session.may("admin", "keys");
  return html`<${Head} title="API keys" actions=${may && html`<button class="primary" onClick=${() => make(true)}>
    <${Icon} name="plus" /> New key</button>`} />
    ${session.name === FIRST_RUN && html`<p class="notice" role="status"><${Icon} name="warning" />
      <span>You signed in with the token of the first start, which works once and expires soon.
        Create a key of your own now.</span></p>`}
    <${Loaded} data=${data}>${(keys) => (keys.length
      ? html`<${Table} keys=${keys} may=${may} after=${data.reload} />`
      : html`<${Empty} title="No API keys yet"
        code="mainspring keys create my-name --role operator">
        Programs and people sign in with a key. Create one here, or with:<//>`)}<//>
    ${making && html`<${NewKey} session=${session} onClose=${closed} />`}
    ${made && html`<${Secret} title=${`The key ${made.key.name}`} secret=${made.secret} code=${example(made.secret)}
      onClose=${() => showSecret(null)}
      words="Programs send it as a bearer token; people sign in to this dashboard with it." />`}`;
}

const example = (secret) =>
  `curl -H "Authorization: Bearer ${secret}" ${new URL("api/v1/session", document.baseURI).href}`;

function Table({ keys, may, after }) {
  return html`<div class="table"><table>
    <${Columns} of=${["Name", "Role", "Scopes", "Created", "Expires", "Last used", ""]} />
    <tbody>${keys.map((key) => html`<${Row} key=${key.id} of=${key} may=${may}
      after=${after} />`)}</tbody></table></div>`;
}

function Row({ of: key, may, after }) {
  return html`<tr>
    <td data-label="" class="name"><span><b>${key.name}</b> <code class="muted"
      title="The middle part of the secret: it identifies a leaked key">${key.id}</code></span></td>
    <td data-label="Role">${key.role}</td>
    <td data-label="Scopes"><span>${key.scopes ? key.scopes.map((scope) => html`<span class="tag"
      key=${scope}>${scope}</span> `) : html`<span class="muted">all of the role</span>`}</span></td>
    <td class="nowrap" data-label="Created"><span>
      <${Time} at=${key.created_at} />${key.created_by && html`<span
      class="muted"> by ${key.created_by}</span>`}</span></td>
    <td class="nowrap" data-label="Expires"><${Expiry} at=${key.expires_at} /></td>
    <td class="nowrap" data-label="Last used">${key.last_used_at ? html`<${Time} at=${key.last_used_at} />` : html`<span
      class="muted">never</span>`}</td>
    <td class="tight" data-label=""><span class="row">
      <a class="button" href=${link("audit", { who: `key:${key.name}` })}
      aria-label=${`Audit log of key ${key.name}`}>Audit</a>
      ${may && html`<button aria-label=${`Revoke key ${key.name}`}
        onClick=${() => revoke(key, after)}>Revoke</button>`}</span></td></tr>`;
}

function Expiry({ at }) {
  const now = useNow();
  if (!at) return html`<span class="muted">never</span>`;
  const soon = Date.parse(at) - now < SOON_MS;
  return html`<span class=${soon ? "state state-retrying" : ""}>${soon && html`<${Icon} name="warning" />`}<${Time}
    at=${at} /></span>`;
}

async function revoke(key, after) {
  const words = "The key and its sessions stop working at once. This cannot be undone.";
  const run = () => remove(`keys/${segment(key.id)}`);
  const done = await confirm({ title: `Revoke ${key.name}?`, words, action: "Revoke", danger: true, run });
  if (done) (toast(`Revoked key ${key.name}.`), after());
}

function NewKey({ session, onClose }) {
  const [key, set] = useState({ name: "", role: "viewer", scopes: session.scopes ? [] : null, expires: "90d" });
  const change = (name) => (value) => set((before) => ({ ...before, [name]: value }));
  const run = () => post("keys", { ...key, name: key.name.trim(), expires: key.expires || null });
  return html`<${FormDialog} title="New API key" action="Create" wide run=${run} onClose=${onClose}
    ready=${key.name.trim() && key.scopes?.length !== 0}>
    <${Field} label="Name" value=${key.name} onValue=${change("name")} required maxlength="64" autofocus
      placeholder="billing-service" hint="Who or what uses it: shown in the audit log." />
    <${Choice} label="Role" value=${key.role} onValue=${change("role")} options=${ROLES} />
    <${Choice} label="Expires" value=${key.expires} onValue=${change("expires")} options=${EXPIRIES} />
    <${Scopes} scopes=${key.scopes} onScopes=${change("scopes")} within=${session.scopes} />
  <//>`;
}
