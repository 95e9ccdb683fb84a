// The dialogs that edit a waiting job, or edit and redrive a dead one.
import { get, patch, post, segment } from "../api.js";
import { parse, Raw, stringify } from "../lossless_json.js";
import { html, useId, useState } from "../html.js";
import { ActionButton } from "./action_button.js";
import { Field, FormDialog, withToast } from "./form.js";
import { fault, JsonEditor } from "./json_editor.js";
import { toInstant, InstantField, toFieldText } from "./instant_field.js";

const MASK = "***";
const pretty = (value) => stringify(value, "  ");
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** The changed members of an edited object. The others are not sent, so masked values stay. */
export function changedMembers(before, text) {
  const now = parse(text);
  const isNew = ([name, value]) => !Object.hasOwn(before, name) || stringify(value) !== stringify(before[name]);
  return Object.fromEntries(Object.entries(now).filter(isNew));
}

/** The reason why these arguments cannot be sent; "" if they are not JSON; null if they can be sent. */
function argumentsProblem(before, text) {
  if (fault(text)) return "";
  const now = parse(text);
  const gone = Object.keys(before).filter((name) => !Object.hasOwn(now, name));
  if (gone.length) return `An argument can be changed, but not removed: ${gone.join(", ")}.`;
  return maskProblem(changedMembers(before, text));
}

function maskProblem(changed) {
  if (!stringify(changed).includes(MASK)) return null;
  return `${MASK} stands for a secret that is hidden: enter the secret, or leave the value unchanged.`;
}

/** Number of rows of a text field: one more than the text has, up to `most`. */
const rowsFor = (text, most) => Math.min(most, text.split("\n").length + 1);

function Arguments({ job, text, onText }) {
  const words = argumentsProblem(job.payload, text);
  return html`<${JsonEditor} label="Arguments" text=${text} onText=${onText} rows=${rowsFor(text, 14)} />
    ${words && html`<p class="fault" role="alert">${words}</p>`}`;
}

/** Redrives a dead job with changed arguments. */
export function Redrive({ job, onClose, onDone }) {
  const readable = isObject(job.payload);
  const [text, set] = useState(readable ? pretty(job.payload) : "{}");
  const before = readable ? job.payload : {};
  const send = async () => {
    const changed = changedMembers(before, text);
    const other = Object.keys(changed).length ? changed : undefined;
    const result = await post("dead/redrive", { ids: [job.id], arguments: other });
    if (result.refused.length) throw new Error(result.refused[0].detail);
    return "Queued again.";
  };
  return html`<${FormDialog} title="Edit and redrive" action="Redrive" wide
      ready=${argumentsProblem(before, text) === null} run=${withToast(send, onDone)} onClose=${onClose}>
    <p class="hint">The job is queued again, with all its retries. Its task checks the arguments.</p>
    <${Arguments} job=${{ ...job, payload: before }} text=${text} onText=${set} />
  <//>`;
}

const formOf = (job) => ({
  arguments: isObject(job.payload) ? pretty(job.payload) : null,
  queue: job.queue, priority: String(job.priority), run_at: toFieldText(job.run_at),
  max_retries: job.max_retries === null ? "" : String(job.max_retries),
  tags: job.tags.join("\n"), metadata: pretty(job.metadata),
});

/** The changed fields in a request body. */
function editOf(job, first, now) {
  const found = {};
  const differs = (name) => now[name] !== first[name];
  if (now.arguments !== null && differs("arguments")) {
    const changed = changedMembers(job.payload, now.arguments);
    if (Object.keys(changed).length) found.arguments = changed;
  }
  if (differs("queue")) found.queue = now.queue;
  if (differs("priority")) found.priority = new Raw(now.priority);
  if (differs("run_at")) found.run_at = toInstant(now.run_at);
  if (differs("max_retries")) found.max_retries = new Raw(now.max_retries);
  if (differs("tags")) found.tags = now.tags.split("\n").map((tag) => tag.trim()).filter(Boolean);
  if (differs("metadata") && stringify(parse(now.metadata)) !== stringify(job.metadata)) {
    found.metadata = new Raw(now.metadata);
  }
  return found;
}

/** The reason why the form cannot be sent. null if it can. */
function formProblem(job, first, now) {
  if (now.arguments !== null && argumentsProblem(job.payload, now.arguments) !== null) return "arguments";
  if (fault(now.metadata) || !/^-?\d+$/.test(now.priority) || !toInstant(now.run_at) || !now.queue) return "field";
  if (now.max_retries !== first.max_retries && !/^\d+$/.test(now.max_retries)) return "field";
  return now.metadata !== first.metadata ? maskProblem(parse(now.metadata)) : null;
}

export function JobEdit({ job: read, onClose, onDone }) {
  const [job, load] = useState(read);
  const [now, set] = useState(() => formOf(read));
  const [outdated, outdate] = useState(null);
  const first = formOf(job);
  const put = (name) => (value) => set((before) => ({ ...before, [name]: value }));
  const problem = formProblem(job, first, now);
  const send = async () => {
    const body = editOf(job, first, now);
    if (!Object.keys(body).length) return "No changes.";
    await patch(`jobs/${segment(job.id)}`, body, job.etag);
    return "Saved.";
  };
  const again = async () => {
    const fresh = await get(`jobs/${segment(job.id)}`);
    load(fresh);
    set(formOf(fresh));
    outdate(null);
  };
  const refused = (error) => (outdate(error.status === 412 ? error : null), error.status === 412);
  return html`<${FormDialog} title="Edit this job" action="Save" wide ready=${problem === null}
      run=${withToast(send, onDone)} refused=${refused} onClose=${onClose}>
    ${outdated && html`<div class="notice" role="alert">
      <span>The job was changed in the meantime: ${outdated.message}.</span>
      <${ActionButton} run=${again}>Reload<//></div>`}
    ${now.arguments === null
      ? html`<p class="hint">Its arguments cannot be read, so they cannot be edited.</p>`
      : html`<${Arguments} job=${job} text=${now.arguments} onText=${put("arguments")} />`}
    <div class="grid edit-fields">
      <${Field} label="Queue" value=${now.queue} onValue=${put("queue")} />
      <${Field} label="Priority" value=${now.priority} onValue=${put("priority")} inputmode="numeric"
        hint="Higher runs first; the default is 0." />
      <${InstantField} label="Due at" text=${now.run_at} onText=${put("run_at")} required />
      <${Field} label="Retries" value=${now.max_retries} onValue=${put("max_retries")} inputmode="numeric"
        hint=${job.max_retries === null ? "Empty: the task's own." : "After the first attempt."} />
    </div>
    <${Tags} text=${now.tags} onText=${put("tags")} />
    <${JsonEditor} label="Metadata" text=${now.metadata} onText=${put("metadata")} rows=${rowsFor(now.metadata, 8)} />
    ${problem?.includes(MASK) && html`<p class="fault" role="alert">${problem}</p>`}
  <//>`;
}

function Tags({ text, onText }) {
  const id = useId();
  return html`<div class="field"><label for=${id}>Tags</label>
    <textarea id=${id} rows="2" value=${text} onInput=${(event) => onText(event.target.value)}></textarea>
    <p class="hint">One per line.</p></div>`;
}
