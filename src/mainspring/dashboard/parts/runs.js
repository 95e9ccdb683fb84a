// The runs of a job, and the details of the selected run.
import { bytes, count, duration } from "../format.js";
import { html, useEffect, useRef } from "../html.js";
import { Failure } from "./failure.js";
import { Facts } from "./page.js";
import { State } from "./state.js";
import { Span, Time } from "./time.js";
import { JsonTree } from "./json_tree.js";
import { workerLink } from "./worker.js";

const COLUMNS = ["Run", "Attempt", "Ending", "Worker", "Started", "Took", "CPU", "Memory", "Items", "Error"];
const NUMBERS = new Set(["Attempt", "Took", "CPU", "Memory"]);
const WIDE = new Set(["Items", "Error"]);

/** The runs, newest first. Optional columns are omitted if no run has a value for them. */
export function Runs({ job, runs, chosen, onChoose }) {
  const all = [...(job.state === "running" ? [runningRun(job)] : []), ...runs.toReversed()];
  if (!all.length) return html`<p class="muted">No runs yet.</p>`;
  const empty = new Set([
    ...(all.some((run) => run.usage) ? [] : ["CPU", "Memory"]), ...(all.some((run) => run.items) ? [] : ["Items"]),
  ]);
  const columns = COLUMNS.filter((name) => !empty.has(name));
  const look = (name) => (NUMBERS.has(name) ? "number tight" : WIDE.has(name) ? "" : "tight");
  return html`<div class="table runs"><table><caption class="unseen">Runs, newest first</caption>
    <thead><tr>${columns.map((name) => html`<th key=${name} scope="col"
      class=${NUMBERS.has(name) ? "number" : ""}>${name}</th>`)}</tr></thead>
    <tbody>${all.map((run) => html`<tr key=${run.number} class=${chosen === run.number ? "chosen" : ""}>
      ${columns.map((name) => html`<td key=${name} data-label=${name} class=${look(name)}>
        ${cell(name, run, chosen === run.number, onChoose)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/** The running run: it has no history row yet. */
const runningRun = (job) => ({
  number: job.runs, attempt: job.attempt, ending: "running", worker: job.worker,
  started_at: job.started_at, finished_at: null,
});

function cell(name, run, chosen, onChoose) {
  switch (name) {
    case "Run": return html`<button type="button" class="quiet" aria-expanded=${chosen}
      aria-label=${`Run ${run.number}`} onClick=${() => onChoose(chosen ? null : run.number)}>${run.number}</button>`;
    case "Attempt": return run.attempt;
    case "Ending": return html`<${State} of=${run.outcome ?? run.ending} />`;
    case "Worker": return run.worker ? html`<a href=${workerLink(run.worker)}>${run.worker}</a>` : "–";
    case "Started": return html`<${Time} at=${run.started_at} />`;
    case "Took": return run.finished_at ? duration(Number(run.seconds)) : html`<${Span} from=${run.started_at} />`;
    case "CPU": return run.usage ? duration(Number(run.usage.cpu)) : "–";
    case "Memory": return run.usage ? bytes(Number(run.usage.memory)) : "–";
    case "Items": return run.items ? items(run.items) : "–";
    default: return run.failure
      ? html`<span class="brief">${run.failure.type}: ${run.failure.message}</span>`
      : html`<span class="muted">–</span>`;
  }
}

const items = ({ success = 0, failed = 0, skipped = 0 }) =>
  [[success, "done"], [failed, "failed"], [skipped, "skipped"]]
    .filter(([n]) => n)
    .map(([n, word]) => `${count(n)} ${word}`)
    .join(", ") || "none";

/** The details of a run. Its log lines are in the log. */
export function Run({ run, onClose }) {
  const place = useRef();
  useEffect(() => place.current.scrollIntoView({ block: "nearest" }), []);
  return html`<section ref=${place} class="card run" aria-label=${`Run ${run.number}`}>
    <div class="row"><h2>Run ${run.number}</h2><${State} of=${run.outcome ?? run.ending} />
      <button class="quiet" onClick=${onClose}>Show all runs</button></div>
    <${Facts} of=${[
      ["Started", html`<${Time} at=${run.started_at} exact />`],
      ["Ended", html`<${Time} at=${run.finished_at} exact />`],
      ["Result", run.result_size ? bytes(run.result_size) : undefined], ["Lease", html`<code>${run.lease}</code>`],
      ["Items", run.items ? items(run.items) : undefined],
    ]} />
    ${run.failure && html`<${Failure} of=${run.failure} open />`}
    ${Object.keys(run.metadata).length > 0 && html`<h3>Notes</h3><${JsonTree} value=${run.metadata} name="notes" />`}
  </section>`;
}
