// Actions on one schedule, each in a dialog.
import { post, segment } from "../api.js";
import { Raw, stringify } from "../lossless_json.js";
import { localAndUtc, local, plural } from "../format.js";
import { html, useState } from "../html.js";
import { now } from "../clock.js";
import { go, jobLink } from "../route.js";
import { Field, FormDialog, withToast } from "./form.js";
import { fault, JsonEditor } from "./json_editor.js";
import { toInstant, InstantField, toFieldText } from "./instant_field.js";

const path = (row, verb) => `schedules/${segment(row.name)}/${verb}`;

export function Pause({ row, onClose, onDone }) {
  const [note, set] = useState("");
  const run = async () => (await post(path(row, "pause"), { note }), `Paused ${row.name}.`);
  return html`<${FormDialog} title=${`Pause ${row.name}`} action="Pause" run=${withToast(run, onDone)}
      onClose=${onClose}>
    <p>It creates no jobs until it is resumed. Running jobs finish. Deploys do not end a pause.</p>
    <${Field} label="Note" value=${note} onValue=${set} maxlength="1000" autofocus
      placeholder="the reason, for others who find it paused" />
  <//>`;
}

export function Resume({ row, onClose, onDone }) {
  const [catchUp, set] = useState(false);
  const run = async () => (await post(path(row, "resume"), { catch_up: catchUp }), `Resumed ${row.name}.`);
  const choice = (value, words, more) => html`<p>
    <label><input type="radio" name="how" checked=${catchUp === value} onChange=${() => set(value)} />${" "}
      <b>${words}</b></label><br />
    <span class="muted">${more}</span></p>`;
  return html`<${FormDialog} title=${`Resume ${row.name}`} action="Resume" run=${withToast(run, onDone)}
      onClose=${onClose}>
    ${row.note && html`<p class="notice">${row.note}</p>`}
    <fieldset><legend>Ticks missed during the pause</legend>
      ${choice(false, "Skip", "It continues from now; they are recorded as skipped.")}
      ${choice(true, "Catch up", `It continues from where it stopped, by its catch-up policy “${row.spec.catch_up}”.`)}
    </fieldset>
  <//>`;
}

export function Trigger({ row, onClose, onDone }) {
  const own = row.spec.computed ? "{}" : stringify(row.spec.payload ?? {}, "  ");
  const [other, choose] = useState(false);
  const [text, set] = useState(own);
  const run = async () => {
    const { job_id: id } = await post(path(row, "trigger"), other ? { kwargs: new Raw(text) } : {});
    go(jobLink(id));
    return `Enqueued ${row.name}.`;
  };
  const alone = row.spec.overlap === "allow" ? "" : ", and does not overlap it";
  return html`<${FormDialog} title=${`Run ${row.name} now`} action="Run now" run=${withToast(run, onDone)}
      ready=${!other || fault(text) === null} onClose=${onClose}>
    <p>Creates one job now, even while the schedule is paused. The next tick stays${alone}.</p>
    <p><label><input type="checkbox" checked=${other} onChange=${(event) => choose(event.target.checked)} />${" "}
      With other arguments</label></p>
    ${other && html`<${JsonEditor} label="Arguments" text=${text} onText=${set} />
      ${own.includes("***")
        && html`<p class="hint">Values shown as *** are secrets: those that stay *** are kept.</p>`}`}
    ${!other && row.spec.computed && html`<p class="muted">A function in the code makes its arguments.</p>`}
  <//>`;
}

const SHORTCUTS = [["in 1 min", 60], ["in 10 min", 600], ["in 1 h", 3600]];

export function Reschedule({ row, onClose, onDone }) {
  const [text, set] = useState(toFieldText(row.next_run_at));
  const run = async () => {
    await post(path(row, "reschedule"), { at: toInstant(text) });
    return `The next tick of ${row.name} is at ${local(toInstant(text))}.`;
  };
  return html`<${FormDialog} title=${`Move the next tick of ${row.name}`} action="Move" run=${withToast(run, onDone)}
      ready=${Boolean(toInstant(text))} onClose=${onClose}>
    <p>Only the next tick moves. Later ticks follow the rule: ${row.spec.meaning}.</p>
    <${InstantField} label="Next tick" text=${text} onText=${set} required />
    <p class="row">${SHORTCUTS.map(([words, seconds]) => html`<button key=${words} type="button"
      onClick=${() => set(toFieldText(now() + seconds * 1000))}>${words}</button>`)}</p>
  <//>`;
}

const DAY = 86_400_000;
const MAX_TICKS = 10_000; // of one backfill, by the API
const RANGES = [["last 24 h", DAY], ["last 7 days", 7 * DAY], ["last 30 days", 30 * DAY]];

/** First a preview, then the change and its result. */
export function Backfill({ row, onClose, onDone }) {
  const [range, set] = useState({ start: "", end: "" });
  const [state, say] = useState({ plan: null, result: null });
  const change = (part) => (set({ ...range, ...part }), say({ plan: null, result: null }));
  const body = (dry_run) => ({ start: toInstant(range.start), end: toInstant(range.end), dry_run, limit: MAX_TICKS });
  const run = async () => {
    if (state.result) return "";
    const answer = await post(path(row, "backfill"), body(!state.plan));
    say(state.plan ? { plan: null, result: answer } : { plan: answer, result: null });
    if (state.plan) onDone();
    return false;
  };
  const made = state.plan?.made.length;
  const action = state.result ? "Done" : state.plan ? `Create ${plural(made, "job")}` : "Preview";
  const last = (span) => change({ start: toFieldText(now() - span), end: toFieldText(now()) });
  return html`<${FormDialog} title=${`Backfill ${row.name}`} action=${action}
      ready=${made !== 0 && Boolean(toInstant(range.start))} run=${withToast(run, onDone)} wide onClose=${onClose}>
    <p>Creates jobs for past ticks that have none: after an outage, or for a time before the schedule existed.
      They may overlap other runs, and their failures do not pause the schedule.</p>
    <div class="grid">
      <${InstantField} label="From" text=${range.start} onText=${(start) => change({ start })} required />
      <${InstantField} label="To" text=${range.end} onText=${(end) => change({ end })} hint="empty: until now" /></div>
    <p class="row">${RANGES.map(([words, span]) => html`<button key=${words} type="button"
      onClick=${() => last(span)}>${words}</button>`)}</p>
    <div aria-live="polite">
      ${state.plan && planned(state.plan)}
      ${state.result && backfilled(state.result)}
    </div>
  <//>`;
}

function planned({ made, there }) {
  const words = made.length ? `Would create ${plural(made.length, "job")}` : "No tick without a job in this range";
  const already = there.length > 0 && `; ${plural(there.length, "tick has", "ticks have")} a job already`;
  return html`<p><b>${words}</b>${already}.</p><${Instants} of=${made} />`;
}

function backfilled({ made, there }) {
  const words = `Created ${plural(made.length, "job")}`;
  return html`<p><b>${words}; ${plural(there.length, "tick", "ticks")} had a job already.</b></p>
    <${Instants} of=${made} />`;
}

const MAX_LISTED = 100;

function Instants({ of: instants }) {
  if (!instants.length) return null;
  return html`<ul class="instants">
    ${instants.slice(0, MAX_LISTED).map((at) => html`<li key=${at}>
      ${localAndUtc(Date.parse(at)).replace("\n", ", ")}</li>`)}
    ${instants.length > MAX_LISTED
      && html`<li class="muted">and ${instants.length - MAX_LISTED} more, until ${local(instants.at(-1))}</li>`}</ul>`;
}
