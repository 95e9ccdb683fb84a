// The form that creates or edits a schedule, with a preview of its rule.
import { patch, post, segment } from "../api.js";
import { Raw, stringify } from "../lossless_json.js";
import { html, useRef, useState } from "../html.js";
import { Choice, Field, FormDialog, withToast } from "./form.js";
import { fault as jsonFault, JsonEditor } from "./json_editor.js";
import { InstantField } from "./instant_field.js";
import { isComplete, ruleDraft, RuleFields, ruleOf } from "./rule_fields.js";
import { withoutPath, RulePreview, useRulePreview } from "./rule_preview.js";
import { fieldOf, POLICIES, policyDraft, changedPolicies } from "./schedule_draft.js";

const LIMITING_FIELDS = ["opens", "exclude", "start_at", "end_at"];

/** Edits the schedule `row`, or creates one without it. `onDone` gets the response of the API. */
export function ScheduleForm({ row, tasks, onClose, onDone }) {
  const first = useRef(null);
  first.current ??= {
    name: row?.name ?? "", task: row?.spec.task ?? "", kwargs: stringify(row?.spec.payload ?? {}, "  "),
    rule: ruleDraft(row?.spec.trigger), ...policyDraft(row?.spec),
  };
  const [draft, set] = useState(first.current);
  const [refusal, refuse] = useState(null);
  const trigger = ruleOf(draft.rule);
  const preview = useRulePreview(trigger, draft.name, isComplete(draft.rule));
  const answer = useRef();
  const change = (part) => (set((before) => ({ ...before, ...part })), refuse(null));
  const changeRule = (part) => change({ rule: { ...draft.rule, ...part } });
  const field = refusal && refusal.status !== 412 ? fieldOf(refusal) : null;
  const faultOf = (name) => (field === name ? withoutPath(refusal.message) : undefined);
  const send = async (etag) => {
    refuse(null);
    const body = requestBody(draft, first.current, trigger, row);
    answer.current = row ? await patch(`schedules/${segment(row.name)}`, body, etag) : await post("schedules", body);
    return `${row ? "Saved" : "Created"} ${draft.name}: ${answer.current.spec.meaning}.`;
  };
  const refused = (error) =>
    (refuse(error), focusFirstFault(), error.status !== 412 && FIELDS_WITH_FAULT.has(fieldOf(error)));
  const rule = preview.error ? withoutPath(preview.error.message) : faultOf("trigger");
  const etag = useRef(row?.etag);
  const anyway = refusal?.status === 412
    && html`<button onClick=${() => (etag.current = undefined)}>Save anyway</button>`;
  const run = withToast(() => send(etag.current), () => onDone(answer.current));
  return html`<${FormDialog} title=${row ? `Edit ${row.name}` : "New schedule"} action=${row ? "Save" : "Create"}
      wide run=${run} refused=${refused} more=${anyway}
      ready=${jsonFault(draft.kwargs) === null && jsonFault(draft.metadata) === null} onClose=${onClose}>
    ${row?.owner === "code" && html`<p class="notice">The code declares this schedule. Changes made here stay
      until the declaration in the code changes: then a deploy applies the code.</p>`}
    <div class="schedule-form"><div>
      ${!row && html`<${Field} label="Name" value=${draft.name} onValue=${(name) => change({ name })}
        fault=${faultOf("name")} required autofocus />`}
      ${!row && html`<${Field} label="Task" value=${draft.task} onValue=${(task) => change({ task })}
          fault=${faultOf("task")} required list="known-tasks" hint=${taskHint(tasks, draft.task)} />
        <datalist id="known-tasks">
          ${tasks.map((task) => html`<option key=${task.name} value=${task.name} />`)}</datalist>`}
      <${RuleFields} draft=${draft.rule} onChange=${changeRule} fault=${rule} />
      ${row?.spec.computed && html`<p class="hint">A function in the code makes its arguments; arguments
        written here replace them.</p>`}
      <${JsonEditor} label="Arguments" text=${draft.kwargs} rows=${4} onText=${(kwargs) => change({ kwargs })} />
      ${draft.kwargs.includes("***") && html`<p class="hint">Values shown as *** are hidden. They stay unchanged unless
        you replace them.</p>`}
      ${faultOf("kwargs") && html`<p class="fault" role="alert">${faultOf("kwargs")}</p>`}
    </div><${RulePreview} preview=${preview} tz=${trigger.tz}
      narrowed=${LIMITING_FIELDS.some((name) => draft[name])} /></div>
    ${anyway && html`<p class="hint">Only your changes are saved; changes by others stay.</p>`}
    <${MoreOptions} draft=${draft} change=${change} faultOf=${faultOf} field=${field} row=${row} />
  <//>`;
}

/** Fields that show an error of the API. */
const FIELDS_WITH_FAULT = new Set([
  "name", "task", "trigger", "kwargs", ...POLICIES.flatMap(([, fields]) => fields.map((one) => one.name)),
]);

function requestBody(draft, before, trigger, row) {
  const changed = changedPolicies(draft, before);
  if (draft.kwargs !== before.kwargs) changed.kwargs = new Raw(draft.kwargs);
  if (!row) return { name: draft.name, task: draft.task, trigger, ...changed };
  return stringify(trigger) === stringify(ruleOf(before.rule)) ? changed : { trigger, ...changed };
}

function focusFirstFault() {
  setTimeout(() => document.querySelector("dialog[open] [aria-invalid=true]")?.focus());
}

function taskHint(tasks, name) {
  const task = tasks.find((one) => one.name === name);
  if (!task) return name ? "This server does not have this task; workers may." : undefined;
  const taken = Object.keys(task.arguments.properties ?? {});
  return taken.length ? `Parameters: ${taken.join(", ")}` : "It takes no arguments.";
}

function MoreOptions({ draft, change, faultOf, field, row }) {
  const [open, set] = useState(false);
  const here = field && POLICIES.some(([, fields]) => fields.some((one) => one.name === field));
  return html`<details class="more" open=${open || here} onToggle=${(event) => set(event.target.open)}>
    <summary>More: overlap, catching up, window, retries…</summary>
    ${POLICIES.map(([title, fields]) => html`<fieldset key=${title}><legend>${title}</legend><div class="policy-fields">
      ${fields.filter((one) => !(row && one.once)).map((one) => html`<${Policy} key=${one.name} of=${one}
        value=${draft[one.name]} fault=${faultOf(one.name)}
        onValue=${(value) => change({ [one.name]: value })} />`)}
    </div></fieldset>`)}
  </details>`;
}

function Policy({ of: field, value, onValue, fault }) {
  const { as, label, hint } = field;
  if (as === "choice") {
    return html`<${Choice} label=${label} value=${value} options=${field.options} onValue=${onValue} fault=${fault} />`;
  }
  if (as === "moment") return html`<${InstantField} label=${label} text=${value} onText=${onValue} fault=${fault} />`;
  if (as === "json") return html`<${JsonEditor} label=${label} text=${value} onText=${onValue} rows=${3} />`;
  if (as === "switch") {
    return html`<p class="field"><label><input type="checkbox" checked=${value}
      onChange=${(event) => onValue(event.target.checked)} /> ${label}</label></p>`;
  }
  const kind = as === "number" ? { type: "number", step: "any" } : {};
  return html`<${Field} label=${label} value=${value} onValue=${onValue} hint=${hint} fault=${fault} ...${kind} />`;
}
