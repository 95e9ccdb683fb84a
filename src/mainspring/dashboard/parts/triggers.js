// Inbound triggers: signed messages that create jobs or fire schedules.
import { get, patch, post, remove, segment } from "../api.js";
import { Raw, stringify } from "../lossless_json.js";
import { html, useState } from "../html.js";
import { useData } from "../live.js";
import { jobsLink, scheduleLink } from "../route.js";
import { ActionButton } from "./action_button.js";
import { Columns } from "./columns.js";
import { confirm } from "./dialog.js";
import { Choice, edits, Field, FormDialog } from "./form.js";
import { Icon } from "./icons.js";
import { fault, JsonEditor } from "./json_editor.js";
import { Empty, Loaded } from "./page.js";
import { Secret } from "./secret.js";
import { Time } from "./time.js";
import { toast } from "./toast.js";
import { Rotate } from "./webhook.js";

const path = (trigger) => `triggers/${segment(trigger.name)}`;
const hookUrl = (name) => new URL(`hooks/${encodeURIComponent(name)}`, document.baseURI).href;

/** A shell command that sends a signed message. */
const example = (name, secret) => `BODY='{}' ID=msg-$(date +%s%N) AT=$(date +%s)
KEY=$(printf %s '${secret.replace("whsec_", "")}' | base64 -d | od -An -v -tx1 | tr -d ' \\n')
SIGNED=$(printf %s "$ID.$AT.$BODY" | openssl dgst -sha256 -mac HMAC -macopt hexkey:$KEY -binary | base64)
curl -H "webhook-id: $ID" -H "webhook-timestamp: $AT" -H "webhook-signature: v1,$SIGNED" \\
  --json "$BODY" ${hookUrl(name)}`;

export function Triggers({ may }) {
  const data = useData((signal) => get("triggers", {}, signal), [], { every: 10 });
  const [open, show] = useState(null);
  const closed = (answer) => (show(answer?.secret ? { made: answer } : null), data.reload());
  return html`<section aria-labelledby="inbound"><div class="head">
    <h2 id="inbound">Inbound triggers</h2>
      <div class="actions">${may && html`<button onClick=${() => show({ form: true })}>
        <${Icon} name="plus" /> New trigger</button>`}</div></div>
    <${Loaded} data=${data}>${(triggers) => (triggers.length ? html`<${Table} triggers=${triggers} may=${may}
      show=${show} after=${data.reload} />`
      : html`<${Empty} title="No triggers yet"
        code="mainspring triggers create till --task close_till">
        A trigger is a name and a secret; a signed message to it creates a job, or fires a schedule.<//>`)}<//>
    ${open?.form && html`<${TriggerForm} trigger=${open.trigger} onClose=${closed} />`}
    ${open?.rotate && html`<${Rotate} what=${open.rotate.name} at=${path(open.rotate)} onClose=${closed} />`}
    ${open?.made && html`<${Secret} title=${`The secret of ${open.made.trigger.name}`} secret=${open.made.secret}
      code=${example(open.made.trigger.name, open.made.secret)}
      words="Senders sign their messages with it, as Standard Webhooks specifies." onClose=${() => show(null)} />`}
  </section>`;
}

function Table({ triggers, may, show, after }) {
  return html`<div class="table"><table>
    <${Columns} of=${["Trigger", "State", "Runs", "Arguments", "Created", ""]} />
    <tbody>${triggers.map((trigger) => html`<tr key=${trigger.name}>
      <td data-label="" class="name"><span><b>${trigger.name}</b><br />
        <code class="muted url">POST ${hookUrl(trigger.name)}</code>
        ${trigger.note && html`<br />${trigger.note}`}</span></td>
      <td data-label="State">${trigger.disabled_at ? html`<span class="state state-paused">
        <${Icon} name="pause" />disabled</span>` : html`<span class="state state-completed">
        <${Icon} name="completed" />enabled</span>`}</td>
      <td data-label="Runs"><span>${trigger.schedule ? html`schedule <a
        href=${scheduleLink(trigger.schedule)}>${trigger.schedule}</a>` : html`task <a
        href=${jobsLink({ task: trigger.task })}>${trigger.task}</a>`}
        ${trigger.queue && html` <span class="tag">queue ${trigger.queue}</span>`}
        ${trigger.priority !== null && html` <span class="tag">priority ${trigger.priority}</span>`}</span></td>
      <td data-label="Arguments"><${Arguments} of=${trigger} /></td>
      <td class="nowrap" data-label="Created"><${Time} at=${trigger.created_at} /></td>
      <td class="tight" data-label="">${may && html`<${TriggerActions} trigger=${trigger} show=${show}
        after=${after} />`}</td></tr>`)}</tbody></table></div>`;
}

function Arguments({ of: trigger }) {
  const taken = trigger.arguments === "body" ? ["all members of the message"]
    : Object.entries(trigger.arguments).map(([name, from]) => `${name} from ${from}`);
  const words = [...taken, ...Object.entries(trigger.kwargs).map(([name, value]) => `${name} = ${stringify(value)}`)];
  return words.length ? html`<span>${words.join(", ")}</span>` : html`<span class="muted">none</span>`;
}

function TriggerActions({ trigger, show, after }) {
  const { name, disabled_at: disabled } = trigger;
  const turn = async () => {
    await patch(path(trigger), { disabled: !disabled });
    await after();
    return disabled ? `Enabled ${name}.` : `Disabled ${name}: it refuses messages until it is enabled.`;
  };
  const erase = () => confirm({
    title: `Delete ${name}?`, action: "Delete", danger: true, run: () => remove(path(trigger)),
    words: "Messages to it are refused from now on; jobs that it has created stay. This cannot be undone.",
  }).then((done) => done && (toast(`Deleted trigger ${name}.`), after()));
  return html`<span class="row">
    <${ActionButton} icon=${disabled ? "completed" : "pause"}
      label=${`${disabled ? "Enable" : "Disable"} trigger ${name}`} run=${turn}>${disabled ? "Enable" : "Disable"}<//>
    <button aria-label=${`Edit trigger ${name}`} onClick=${() => show({ form: true, trigger })}>
      <${Icon} name="edit" /> Edit</button>
    <button aria-label=${`Rotate the secret of trigger ${name}`}
      onClick=${() => show({ rotate: trigger })}>Rotate</button>
    <button aria-label=${`Delete trigger ${name}`} onClick=${erase}><${Icon} name="trash" /></button></span>`;
}

const ARGUMENT_SOURCES = [
  ["none", "nothing"], ["body", "all members, as arguments by name"], ["some", "some members, as mapped below"],
];
const EXAMPLE = '{\n  "order": "body.data.id"\n}';

function draftOf(trigger) {
  const map = trigger?.arguments ?? {};
  const takes = map === "body" ? "body" : Object.keys(map).length ? "some" : "none";
  return {
    name: "", kind: trigger?.schedule ? "schedule" : "task", of: trigger?.schedule ?? trigger?.task ?? "",
    queue: trigger?.queue ?? "", note: trigger?.note ?? "", kwargs: stringify(trigger?.kwargs ?? {}, "  "),
    takes, map: takes === "some" ? stringify(map, "  ") : "",
  };
}

function bodyOf(form) {
  const of = form.of.trim(), note = form.note;
  if (form.kind === "schedule") return { task: null, schedule: of, queue: null, note, kwargs: {}, arguments: {} };
  const taken = { none: {}, body: "body", some: new Raw(form.map) }[form.takes];
  const queue = form.queue.trim() || null;
  return { task: of, schedule: null, queue, note, kwargs: new Raw(form.kwargs), arguments: taken };
}

/** Edits `trigger`, or creates one without it. */
function TriggerForm({ trigger, onClose }) {
  const [form, set] = useState(() => draftOf(trigger));
  const change = (name) => (value) => set((before) => ({ ...before, [name]: value }));
  const isTask = form.kind === "task";
  const all = useData((signal) => get(isTask ? "tasks" : "schedules", {}, signal), [isTask]);
  const known = all.value?.items ?? [];
  const run = () => (trigger
    ? patch(path(trigger), edits(bodyOf(draftOf(trigger)), bodyOf(form)), `"${trigger.revision}"`)
    : post("triggers", { name: form.name.trim(), ...bodyOf(form) }));
  const ready = !isTask || (!fault(form.kwargs) && (form.takes !== "some" || !fault(form.map)));
  return html`<${FormDialog} title=${trigger ? `Edit ${trigger.name}` : "New trigger"}
    action=${trigger ? "Save" : "Create"} wide run=${run} onClose=${onClose} ready=${ready}>
    ${!trigger && html`<${Field} label="Name" value=${form.name} onValue=${change("name")} required maxlength="100"
      pattern="[A-Za-z0-9][A-Za-z0-9._\\-]*" autofocus placeholder="till"
      hint="It is part of the address. Letters, digits, dots, dashes and underscores." />`}
    <${Choice} label="Each message" value=${form.kind} onValue=${change("kind")}
      options=${[["task", "creates a job of a task"], ["schedule", "fires a schedule"]]} />
    <${Field} label=${isTask ? "Task" : "Schedule"} value=${form.of} onValue=${change("of")} required list="known" />
    <datalist id="known">${known.map((one) => html`<option key=${one.name} value=${one.name} />`)}</datalist>
    ${isTask && html`<${Choice} label="Arguments from the message" value=${form.takes} onValue=${change("takes")}
      options=${ARGUMENT_SOURCES} />
      ${form.takes === "some" && html`<${JsonEditor} label="Mapping: argument to path in the message"
        text=${form.map} onText=${change("map")} rows=${4} placeholder=${EXAMPLE} />`}
      <${JsonEditor} label="Fixed arguments" text=${form.kwargs} onText=${change("kwargs")}
        rows=${3} />
      <${Field} label="Queue" value=${form.queue} onValue=${change("queue")} placeholder="the task's queue" />`}
    <${Field} label="Note" value=${form.note} onValue=${change("note")} maxlength="1000" />
  <//>`;
}
