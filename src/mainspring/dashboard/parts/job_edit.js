// The dialogs in which a job is edited: one that waits, or a dead one that is redriven.
import { get, patch, post, segment } from "../api.js";
import { parse, Raw, stringify } from "../exact.js";
import { html, useId, useState } from "../html.js";
import { Act } from "./act.js";
import { Field, FormDialog, told } from "./form.js";
import { fault, JsonEditor } from "./json_editor.js";
import { instant, Moment, typed } from "./moment.js";

const HIDDEN = "***";
const pretty = (value) => stringify(value, "  ");
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** The members of an edited object that changed, by name: the rest stays, also what is hidden there. */
export function changes(before, text) {
  const now = parse(text);
  const isNew = ([name, value]) => !Object.hasOwn(before, name) || stringify(value) !== stringify(before[name]);
  return Object.fromEntries(Object.entries(now).filter(isNew));
}

/** Why these arguments cannot be sent, beyond being no JSON; null if they can. */
function wrongArguments(before, text) {
  if (fault(text)) return "";
  const now = parse(text);
  const gone = Object.keys(before).filter((name) => !Object.hasOwn(now, name));
  if (gone.length) return `An argument can be changed, but not removed: ${gone.join(", ")}.`;
  return hides(changes(before, text));
}

function hides(changed) {
  if (!stringify(changed).includes(HIDDEN)) return null;
  return `${HIDDEN} stands for a secret that is not shown: write what it is, or leave that value as it was.`;
}

/** One more than the text has, so that there is room to write. */
const lines = (text, most) => Math.min(most, text.split("\n").length + 1);

function Arguments({ job, text, onText }) {
  const words = wrongArguments(job.payload, text);
  return html`<${JsonEditor} label="Arguments" text=${text} onText=${onText} rows=${lines(text, 14)} />
    ${words && html`<p class="fault" role="alert">${words}</p>`}`;
}

/** Dead → pending, with other arguments. */
export function Redrive({ job, onClose, onDone }) {
  const readable = isObject(job.payload);
  const [text, set] = useState(readable ? pretty(job.payload) : "{}");
  const before = readable ? job.payload : {};
  const send = async () => {
    const changed = changes(before, text);
    const other = Object.keys(changed).length ? changed : undefined;
    const result = await post("dead/redrive", { ids: [job.id], arguments: other });
    if (result.refused.length) throw new Error(result.refused[0].detail);
    return "Queued again.";
  };
  return html`<${FormDialog} title="Edit and redrive" action="Redrive" wide
      ready=${wrongArguments(before, text) === null} run=${told(send, onDone)} onClose=${onClose}>
    <p class="hint">The job is queued again, with all its retries. Its task checks the arguments.</p>
    <${Arguments} job=${{ ...job, payload: before }} text=${text} onText=${set} />
  <//>`;
}

const form = (job) => ({
  arguments: isObject(job.payload) ? pretty(job.payload) : null,
  queue: job.queue, priority: String(job.priority), run_at: typed(job.run_at),
  max_retries: job.max_retries === null ? "" : String(job.max_retries),
  tags: job.tags.join("\n"), metadata: pretty(job.metadata),
});

/** What differs from how it was, as the API takes it. */
function edit(job, first, now) {
  const found = {};
  const differs = (name) => now[name] !== first[name];
  if (now.arguments !== null && differs("arguments")) {
    const changed = changes(job.payload, now.arguments);
    if (Object.keys(changed).length) found.arguments = changed;
  }
  if (differs("queue")) found.queue = now.queue;
  if (differs("priority")) found.priority = new Raw(now.priority);
  if (differs("run_at")) found.run_at = instant(now.run_at);
  if (differs("max_retries")) found.max_retries = new Raw(now.max_retries);
  if (differs("tags")) found.tags = now.tags.split("\n").map((tag) => tag.trim()).filter(Boolean);
  if (differs("metadata") && stringify(parse(now.metadata)) !== stringify(job.metadata)) {
    found.metadata = new Raw(now.metadata);
  }
  return found;
}

/** Why it cannot be sent. */
function wrong(job, first, now) {
  if (now.arguments !== null && wrongArguments(job.payload, now.arguments) !== null) return "arguments";
  if (fault(now.metadata) || !/^-?\d+$/.test(now.priority) || !instant(now.run_at) || !now.queue) return "field";
  if (now.max_retries !== first.max_retries && !/^\d+$/.test(now.max_retries)) return "field";
  return now.metadata !== first.metadata ? hides(parse(now.metadata)) : null;
}

export function JobEdit({ job: read, onClose, onDone }) {
  const [job, load] = useState(read);
  const [now, set] = useState(() => form(read));
  const [outdated, outdate] = useState(null);
  const first = form(job);
  const put = (name) => (value) => set((before) => ({ ...before, [name]: value }));
  const problem = wrong(job, first, now);
  const send = async () => {
    const body = edit(job, first, now);
    if (!Object.keys(body).length) return "No changes.";
    await patch(`jobs/${segment(job.id)}`, body, job.etag);
    return "Saved.";
  };
  const again = async () => {
    const fresh = await get(`jobs/${segment(job.id)}`);
    load(fresh);
    set(form(fresh));
    outdate(null);
  };
  const refused = (error) => (outdate(error.status === 412 ? error : null), error.status === 412);
  return html`<${FormDialog} title="Edit this job" action="Save" wide ready=${problem === null}
      run=${told(send, onDone)} refused=${refused} onClose=${onClose}>
    ${outdated && html`<div class="notice" role="alert">
      <span>The job was changed in the meantime: ${outdated.message}.</span>
      <${Act} run=${again}>Reload<//></div>`}
    ${now.arguments === null
      ? html`<p class="hint">Its arguments cannot be read, so they cannot be edited.</p>`
      : html`<${Arguments} job=${job} text=${now.arguments} onText=${put("arguments")} />`}
    <div class="grid edit-fields">
      <${Field} label="Queue" value=${now.queue} onValue=${put("queue")} />
      <${Field} label="Priority" value=${now.priority} onValue=${put("priority")} inputmode="numeric"
        hint="Higher runs first; the default is 0." />
      <${Moment} label="Due at" text=${now.run_at} onText=${put("run_at")} required />
      <${Field} label="Retries" value=${now.max_retries} onValue=${put("max_retries")} inputmode="numeric"
        hint=${job.max_retries === null ? "Empty: the task's own." : "After the first attempt."} />
    </div>
    <${Tags} text=${now.tags} onText=${put("tags")} />
    <${JsonEditor} label="Metadata" text=${now.metadata} onText=${put("metadata")} rows=${lines(now.metadata, 8)} />
    ${problem?.includes(HIDDEN) && html`<p class="fault" role="alert">${problem}</p>`}
  <//>`;
}

function Tags({ text, onText }) {
  const id = useId();
  return html`<div class="field"><label for=${id}>Tags</label>
    <textarea id=${id} rows="2" value=${text} onInput=${(event) => onText(event.target.value)}></textarea>
    <p class="hint">One per line.</p></div>`;
}
