// /audit: who did what to what, when, and the outcome.
import { get } from "../api.js";
import { LosslessNumber, stringify } from "../lossless_json.js";
import { count, local } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { useData } from "../live.js";
import { Columns } from "../parts/columns.js";
import { Icon } from "../parts/icons.js";
import { Empty, Head, Loaded, Pager } from "../parts/page.js";
import { AuditTarget } from "../parts/audit_target.js";
import { Time } from "../parts/time.js";
import { JsonTree } from "../parts/json_tree.js";
import { go, jobLink, link, useRoute } from "../route.js";

/** The recorded actions: verbs by noun. */
const ACTIONS = {
  jobs: ["enqueue", "run_again", "cancel", "retry", "pause", "resume", "reschedule", "update", "delete"],
  schedules: ["create", "update", "pause", "resume", "trigger", "reschedule", "backfill", "rebalance", "delete"],
  queues: ["pause", "resume"], workers: ["drain", "resume", "resize", "stop"], keys: ["create", "revoke"],
  webhooks: ["create", "update", "rotate", "test", "delete"], triggers: ["create", "update", "rotate", "delete"],
};
const FILTERS = ["who", "action", "target", "since", "until"];

export function Audit() {
  const { query } = useRoute();
  const asked = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""]));
  const after = query.get("after");
  const load = (signal) => get("audit", { ...asked, before: after, limit: 50 }, signal);
  const data = useData(load, [query.toString()], { every: after ? 0 : 5 });
  const filtered = FILTERS.some((name) => asked[name]);
  return html`<${Head} title="Audit" />
    <${Filters} asked=${asked} filtered=${filtered} />
    <${Loaded} data=${data}>${(page) => (page.items.length
      ? html`<${Table} entries=${page.items} />
        <${Pager} next=${page.next} words=${after ? "Older entries" : "Newest first"} />`
      : html`<${Nothing} filtered=${filtered} />`)}<//>`;
}

function Nothing({ filtered }) {
  if (filtered) return html`<${Empty} title="No entry matches this filter"><a href="audit">Show all entries</a><//>`;
  return html`<${Empty} title="No entries yet" code="mainspring queues pause mail">
    Changes made through the API, the dashboard and the command line are recorded here:<//>`;
}

/** Text filters apply when the field loses the focus or on Enter, the others at once. */
function Filters({ asked, filtered }) {
  const set = (change) => go(link("audit", { ...asked, ...change }), { replace: true });
  const text = (name, label, hint) => html`<${TextFilter} name=${name} label=${label} hint=${hint} value=${asked[name]}
    onValue=${(value) => set({ [name]: value })} />`;
  const moment = (event) => event.target.value && new Date(event.target.value).toISOString();
  const when = (name, label) => html`<label>${label}<input type="datetime-local" name=${name}
    value=${toFieldText(asked[name])} onChange=${(event) => set({ [name]: moment(event) })} /></label>`;
  return html`<form class="filters" role="search" aria-label="Filter the audit log"
    onSubmit=${(event) => event.preventDefault()}>
    ${text("who", "Who", "anyone")}
    <label>Action<select name="action" value=${asked.action} onChange=${(event) => set({ action: event.target.value })}>
      <option value="" selected=${!asked.action}>any action</option>
      ${Object.entries(ACTIONS).map(([noun, verbs]) => html`<optgroup key=${noun} label=${noun}>
        <option value=${noun} selected=${asked.action === noun}>${noun}: any action</option>
        ${verbs.map((verb) => html`<option key=${verb} value=${`${noun}.${verb}`}
          selected=${asked.action === `${noun}.${verb}`}>${noun}.${verb}</option>`)}</optgroup>`)}</select></label>
    ${text("target", "Target", "full id or name")}${when("since", "From")}${when("until", "To")}
    ${filtered && html`<a class="button" href="audit"><${Icon} name="close" /> Clear</a>`}
  </form>`;
}

/** Typed text is kept while the list reloads. */
function TextFilter({ name, label, hint, value, onValue }) {
  const [text, set] = useState(value);
  useEffect(() => set(value), [value]);
  return html`<label>${label}<input name=${name} value=${text} placeholder=${hint} spellcheck=${false}
    autocomplete="off" onInput=${(event) => set(event.target.value)} onChange=${() => onValue(text.trim())} /></label>`;
}

/** The value of a datetime-local field for an instant: in the viewer's zone, without seconds. */
function toFieldText(instant) {
  const at = Date.parse(instant);
  return Number.isNaN(at) ? "" : new Date(at - new Date(at).getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}

function Table({ entries }) {
  return html`<div class="table audit"><table>
    <${Columns} of=${["When", "Who", "Action", "Target", "Outcome", "Details"]} />
    <tbody>${entries.map((entry) => html`<${Row} key=${entry.id} entry=${entry} />`)}</tbody></table></div>`;
}

function Row({ entry }) {
  const [open, set] = useState(false);
  return html`<tr>
      <td class="nowrap" data-label="When"><${Time} at=${entry.at} /></td>
      <td data-label="Who"><a href=${link("audit", { who: entry.who })}>${entry.who}</a></td>
      <td class="nowrap" data-label="Action">
        <a href=${link("audit", { action: entry.action })}><code>${entry.action}</code></a></td>
      <td data-label="Target"><${AuditTarget} action=${entry.action} target=${entry.target} text=${entry.target_text} />
        ${entry.reason && html`<div class="small muted audit-reason">${entry.reason}</div>`}</td>
      <td data-label="Outcome"><${Outcome} action=${entry.action} of=${entry.outcome} /></td>
      <td class="tight" data-label=""><button class="quiet" aria-expanded=${open}
        aria-label=${`Details of ${entry.action} by ${entry.who}`} onClick=${() => set(!open)}>
        <${Icon} name=${open ? "down" : "next"} /> Details</button></td></tr>
    ${open && html`<tr class="details"><td colspan="6"><div class="grid">
      <div><h3>When</h3><p><${Time} at=${entry.at} exact /></p><h3>Request</h3>
        <${JsonTree} value=${entry.asked} name="the request" /></div>
      <div><h3>Outcome</h3><${JsonTree} value=${entry.outcome} name="the outcome" /></div></div></td></tr>`}`;
}

function Outcome({ action, of: outcome }) {
  const died = "The process died before it recorded the outcome: look at the target";
  if (outcome === null) return html`<span class="state state-retrying" title=${died}>
    <${Icon} name="warning" />unknown</span>`;
  if (outcome.error) return html`<span class="state state-failed outcome">
    <${Icon} name="failed" />${outcome.error}</span>`;
  const job = action === "schedules.trigger" && outcome.after?.last_job_id;
  if (job) return html`<span class="outcome">job <a href=${jobLink(job)}><code>${job}</code></a> created</span>`;
  return html`<span class="outcome">${changes(action, outcome).join(", ")}</span>`;
}

const MAX_CHANGES = 3; // changes in a row of the table
const isObject = (value) =>
  value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof LosslessNumber);

function brief(value) {
  if (value === null || value === undefined || value === "") return "none";
  const text = typeof value === "string" ? value : stringify(value);
  if (/^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(text)) return local(text);
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}

/** The differences between two objects, also in nested ones: [["spec.trigger.expr", before, after], …]. */
function differences(before, after, path = "") {
  const names = Object.keys({ ...before, ...after });
  return names.filter((name) => stringify(before[name] ?? null) !== stringify(after[name] ?? null)).flatMap((name) => {
    const [old, now] = [before[name], after[name]];
    return isObject(old) && isObject(now)
      ? differences(old, now, `${path}${name}.`) : [[`${path}${name}`, old, now]];
  });
}

/** The result of actions without further details. */
const DONE = {
  pause: "paused", resume: "resumed", drain: "drained", stop: "stopped", reschedule: "rescheduled", rotate: "rotated",
  enqueue: "enqueued", revoke: "revoked", test: "queued",
};
/** Fields that are omitted in the table: they follow from the action, or are shown with the target. */
const IMPLIED = new Set([
  "paused", "paused_at", "paused_by", "note", "active", "anchor_at", "due_at", "last_job_id", "ticks", "drained",
  "reached_at",
]);
const NAMES = { concurrency: "slots", next_run_at: "next tick" };

/** The displayed name of a field: trigger.expr for spec.trigger.expr, slots for concurrency. */
const fieldName = (path) => NAMES[path.split(".").pop()] ?? path.replace(/^spec\./, "");

/** The changes in words: "trigger.expr: 0 9 * * * → 30 8 * * *", or the number of changed rows. */
function changes(action, { before, after, done, refused }) {
  if (done !== undefined) return [`${count(done)} done`, ...(refused ? [`${count(refused)} refused`] : [])];
  if (!isObject(before) && isObject(after)) return ["created"];
  if (isObject(before) && !isObject(after)) return ["deleted"];
  const all = isObject(before) ? differences(before, after) : [];
  const found = all.filter(([name]) => !IMPLIED.has(name.split(".").pop()));
  const text = ([name, old, now]) => `${fieldName(name)}: ${brief(old)} → ${brief(now)}`;
  const texts = found.slice(0, MAX_CHANGES).map(text);
  if (!texts.length) return [DONE[action.split(".")[1]] ?? "done"];
  return found.length > MAX_CHANGES ? [...texts, `${found.length - MAX_CHANGES} more`] : texts;
}
