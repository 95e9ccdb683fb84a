// A table of jobs: state, task, queue, times, details and actions.
import { html } from "../html.js";
import { jobLink, link, scheduleLink } from "../route.js";
import { useSession } from "../session.js";
import { Icon } from "./icons.js";
import { RowActions } from "./row_actions.js";
import { Progress } from "./progress.js";
import { State } from "./state.js";
import { Span, Time } from "./time.js";

const ENDED = ["completed", "dead", "cancelled", "expired"];
const NONE = new Set();
const ID_CHARACTERS = 18; // enough to distinguish the jobs of one machine

/** The most relevant instant for a job's state, and its label. */
export function relevantInstant(job) {
  if (ENDED.includes(job.shown)) {
    return [job.shown === "expired" ? "expired" : "finished", job.finished_at ?? job.expires_at];
  }
  if (job.shown === "running") return ["started", job.started_at];
  if (job.shown === "scheduled" || job.shown === "pending") return ["due", job.run_at];
  if (job.shown === "retrying") return ["retry", job.run_at];
  return ["created", job.created_at];
}

// States that a paused queue holds back.
const HELD_BY_PAUSE = ["pending", "scheduled", "retrying"];

/**
 * `selected` is a Set of ids; `onSelect(job, event)` makes rows selectable; `gone` is a Set of ids that are no longer
 * in the list; `paused` is a Set of paused queues; `onDone` is called after an action.
 */
export function JobTable({
  jobs, selected, onSelect, onSelectAll, gone = NONE, paused = NONE, onDone, caption = "Jobs", busy = false,
}) {
  const acts = useSession().may("operator", "jobs");
  const all = jobs.length > 0 && jobs.every((job) => selected?.has(job.id));
  const some = !all && jobs.some((job) => selected?.has(job.id));
  return html`<div class="table jobs-table" aria-busy=${busy}><table>
    <caption class="unseen">${caption}</caption>
    <thead><tr>
      ${onSelect && html`<th scope="col" class="tight"><input type="checkbox" aria-label="Select all on this page"
        checked=${all} indeterminate=${some} onChange=${() => onSelectAll(!all)} /></th>`}
      <th scope="col">State</th><th scope="col">Job</th><th scope="col">Queue</th>
      <th scope="col" class="number">Attempt</th>
      <th scope="col">When</th><th scope="col" class="number">Took</th><th scope="col">Details</th>
      ${acts && html`<th scope="col"><span class="unseen">Actions</span></th>`}
    </tr></thead>
    <tbody>${jobs.map((job) => html`<${Row} key=${job.id} job=${job} selected=${selected?.has(job.id)}
      onSelect=${onSelect} gone=${gone.has(job.id)} paused=${paused.has(job.queue)}
      onDone=${onDone} acts=${acts} />`)}</tbody>
  </table></div>`;
}

function Row({ job, selected, onSelect, gone, paused, onDone, acts }) {
  const [word, at] = relevantInstant(job);
  const classes = [selected && "selected", gone && "gone"].filter(Boolean).join(" ");
  return html`<tr class=${classes}>
    ${onSelect && html`<td data-label="Select" class="tight job-select"><input type="checkbox"
      checked=${Boolean(selected)}
      aria-label=${`Select ${job.task} ${job.id}`} onClick=${(event) => onSelect(job, event)} /></td>`}
    <td data-label="State" class="job-state"><${State} of=${job.outcome ?? job.shown} />
      ${job.shown === "running" && job.cancel_reason !== null && html`<div class="muted small">is stopping</div>`}</td>
    <td data-label="Job" class="job-what"><${JobCell} job=${job} /></td>
    <td data-label="Queue" class="job-queue">
      <a class="plain" href=${link("jobs", { queue: job.queue })}>${job.queue}</a></td>
    <td data-label="Attempt" class="number">${job.attempt || html`<span class="muted">–</span>`}</td>
    <td data-label="When" class="nowrap job-when">
      <span><span class="muted">${word}</span> <${Time} at=${at} /></span></td>
    <td data-label="Took" class="number nowrap"><${DurationCell} job=${job} /></td>
    <td data-label="Details" class="job-how"><${DetailsCell} job=${job} paused=${paused} gone=${gone} /></td>
    ${acts && html`<td data-label="" class="tight job-acts"><${RowActions} job=${job} onDone=${onDone} /></td>`}
  </tr>`;
}

function JobCell({ job }) {
  const hasArguments = job.arguments !== undefined && job.arguments !== "{}";
  return html`<div>
    <a class="job-task" href=${jobLink(job.id)}>${job.task}</a>${" "}
    <code class="muted small nowrap" title=${job.id}>${job.id.slice(0, ID_CHARACTERS)}</code>
    ${hasArguments
      && html`<div class="job-line"><code class="small" title=${job.arguments}>${job.arguments}</code></div>`}
    ${(job.schedule || job.tags.length > 0) && html`<div class="small row">
      ${job.schedule && html`<a class="plain muted" href=${scheduleLink(job.schedule)}>
        <${Icon} name="calendar" size=${13} /> ${job.schedule}</a>`}
      ${job.tags.map((tag) => html`<a class="tag" key=${tag} href=${link("jobs", { tag })}>${tag}</a>`)}</div>`}
  </div>`;
}

function DurationCell({ job }) {
  if (job.shown === "running") return html`<${Span} from=${job.started_at} />`;
  if (job.started_at && job.finished_at) return html`<${Span} from=${job.started_at} until=${job.finished_at} />`;
  return html`<span class="muted">–</span>`;
}

function DetailsCell({ job, paused, gone }) {
  const running = job.shown === "running";
  return html`<div>
    ${gone && html`<div class="small">no longer in this list</div>`}
    ${paused && HELD_BY_PAUSE.includes(job.shown) && html`<a class="job-held" href="queues">
      <${Icon} name="pause" size=${13} /> queue ${job.queue} is paused</a>`}
    ${running && job.progress && html`<${Progress} of=${job.progress} />`}
    ${job.error && (job.shown !== "completed" || job.outcome === "partial") && html`
      <a class="job-error" title=${job.message} href=${link("jobs", { error: job.error })}>${job.message}</a>`}
    ${job.cancel_reason && html`<div class="small muted">${job.cancel_reason}</div>`}
    ${running && job.worker && html`<div class="small muted job-line">on${" "}
      <a class="plain" href=${`workers/${encodeURIComponent(job.worker)}`}>${job.worker}</a></div>`}
  </div>`;
}
