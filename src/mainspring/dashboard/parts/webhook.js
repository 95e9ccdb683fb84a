// A webhook: its state, its actions, and the form that creates or edits it.
import { patch, post, remove, segment } from "../api.js";
import { html, useState } from "../html.js";
import { go } from "../route.js";
import { useSession } from "../session.js";
import { ActionButton } from "./action_button.js";
import { confirm } from "./dialog.js";
import { Checkboxes, edits, Field, FormDialog, parseNames } from "./form.js";
import { Icon } from "./icons.js";
import { Secret } from "./secret.js";
import { toast } from "./toast.js";

const EVENTS = [
  "job.completed", "job.dead", "job.cancelled", "job.expired", "job.retrying", "schedule.missed", "schedule.skipped",
  "schedule.paused", "worker.started", "worker.stopped",
];
const EXTRAS = ["arguments", "metadata", "result"];
const asOptions = (words) => words.map((one) => [one, one]);

export const webhookLink = (name) => `webhooks/${encodeURIComponent(name)}`;
const path = (hook) => `webhooks/${segment(hook.name)}`;

/** Python code with which a receiver verifies a message. */
export const example = (secret) => `import base64, hashlib, hmac

def verified(headers: dict[str, str], body: bytes) -> bool:
    key = base64.b64decode("${secret}".removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    wanted = "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    return any(hmac.compare_digest(wanted, one) for one in headers["webhook-signature"].split())`;

export function WebhookState({ of: hook }) {
  if (hook.disabled_at) return html`<span class="state state-paused" title=${hook.disabled_reason}>
    <${Icon} name="pause" />disabled</span>`;
  if (hook.failures) return html`<span class="state state-failed"><${Icon} name="warning" />failing</span>`;
  return html`<span class="state state-completed"><${Icon} name="completed" />enabled</span>`;
}

/** `brief`: only the actions that fit into a table row. */
export function WebhookActions({ hook, after, brief = false }) {
  const [open, show] = useState(null);
  if (!useSession().may("admin", "webhooks")) return null;
  const turn = async () => {
    await patch(path(hook), { disabled: !hook.disabled_at });
    await after();
    return hook.disabled_at ? `Enabled ${hook.name}.` : `Disabled ${hook.name}.`;
  };
  const test = async () => {
    await post(`${path(hook)}/test`);
    await after();
    return "Test queued: see its deliveries.";
  };
  const erase = () => confirm({
    title: `Delete ${hook.name}?`, action: "Delete", danger: true, run: () => remove(path(hook)),
    words: "It receives no more events; pending deliveries are cancelled. This cannot be undone.",
  }).then((done) => done && (toast(`Deleted webhook ${hook.name}.`), brief ? after() : go("webhooks")));
  return html`<span class="row">
    <${ActionButton} icon="play" label=${`Test webhook ${hook.name}`} run=${test}>Test<//>
    <${ActionButton} icon=${hook.disabled_at ? "completed" : "pause"}
      label=${`${hook.disabled_at ? "Enable" : "Disable"} webhook ${hook.name}`}
      run=${turn}>${hook.disabled_at ? "Enable" : "Disable"}<//>
    ${!brief && html`<button onClick=${() => show("edit")}><${Icon} name="edit" /> Edit</button>
      <button onClick=${() => show("rotate")}>Rotate secret</button>
      <button onClick=${erase}><${Icon} name="trash" /> Delete</button>`}
    ${open === "edit" && html`<${WebhookForm} hook=${hook} onClose=${(done) => (show(null), done && after())} />`}
    ${open === "rotate" && html`<${Rotate} what=${hook.name} at=${path(hook)}
      onClose=${(made) => (show(made ?? null), after())} />`}
    ${open?.secret && html`<${Secret} title=${`The new secret of ${hook.name}`} secret=${open.secret}
      code=${example(open.secret)} onClose=${() => show(null)} />`}
  </span>`;
}

/** Of a webhook or a trigger; `at` is its path in the API. Closes with what the API answers. */
export function Rotate({ what, at, onClose }) {
  const [hours, set] = useState("24");
  return html`<${FormDialog} title=${`Rotate the secret of ${what}`} action="Rotate"
    run=${() => post(`${at}/rotate`, { overlap: Number(hours) * 3600 })} onClose=${onClose}>
    <p>A new secret is shown once. The old one stays valid for a while, so that both sides can switch.</p>
    <${Field} label="Hours until the old secret expires" type="number" min="0" max="8784" step="any" required
      value=${hours}
      onValue=${set} autofocus hint="0 if it leaked: it expires at once." />
  <//>`;
}

const draftOf = (hook) => ({
  name: "", url: hook?.url ?? "", events: hook?.events ?? ["job.dead"], include: hook?.include ?? [],
  queues: (hook?.queues ?? []).join(", "), tasks: (hook?.tasks ?? []).join(", "), tags: (hook?.tags ?? []).join(", "),
  note: hook?.note ?? "",
});
const bodyOf = ({ name, queues, tasks, tags, ...rest }) =>
  ({ ...rest, queues: parseNames(queues), tasks: parseNames(tasks), tags: parseNames(tags) });

/** Edits `hook`, or creates one without it. */
export function WebhookForm({ hook, onClose }) {
  const [form, set] = useState(() => draftOf(hook));
  const change = (name) => (value) => set((before) => ({ ...before, [name]: value }));
  const run = () => (hook ? patch(path(hook), edits(bodyOf(draftOf(hook)), bodyOf(form)), `"${hook.revision}"`)
    : post("webhooks", { name: form.name.trim(), ...bodyOf(form) }));
  return html`<${FormDialog} title=${hook ? `Edit ${hook.name}` : "New webhook"}
    action=${hook ? "Save" : "Create"} wide run=${run} onClose=${onClose} ready=${form.events.length > 0}>
    ${!hook && html`<${Field} label="Name" value=${form.name} onValue=${change("name")} required maxlength="100"
      pattern="[A-Za-z0-9][A-Za-z0-9._\\-]*" autofocus placeholder="pager"
      hint="Letters, digits, dots, dashes and underscores." />`}
    <${Field} label="URL" type="url" value=${form.url} onValue=${change("url")} required
      hint="Events are sent there by POST." />
    <${Checkboxes} legend="Events" chosen=${form.events} onChosen=${change("events")} options=${asOptions(EVENTS)} />
    <${Checkboxes} legend="Include" hint="May be large or private." chosen=${form.include}
      onChosen=${change("include")} options=${asOptions(EXTRAS)} />
    <div class="grid thirds"><${Field} label="Only queues" value=${form.queues} onValue=${change("queues")}
      placeholder="all" hint="Separated by commas." />
      <${Field} label="Only tasks" value=${form.tasks} onValue=${change("tasks")} placeholder="all" />
        <${Field} label="Only with all these tags" value=${form.tags} onValue=${change("tags")}
        placeholder="any" /></div>
    <${Field} label="Note" value=${form.note} onValue=${change("note")} maxlength="1000" />
  <//>`;
}
