// /workers: the running workers, how busy they are, and their heartbeats.
import { get } from "../api.js";
import { bytes, count, plural } from "../format.js";
import { html, useRef } from "../html.js";
import { useData } from "../live.js";
import { Columns } from "../parts/columns.js";
import { Icon } from "../parts/icons.js";
import { Empty, Head, Loaded } from "../parts/page.js";
import { Tiles } from "../parts/tiles.js";
import { Span, Time } from "../parts/time.js";
import { loadWorkers, Slots, WorkerActions, WorkerLink, WorkerState } from "../parts/worker.js";
import { jobLink } from "../route.js";
import { useSession } from "../session.js";

const FOLLOWED = { type: ["worker.started", "worker.stopping", "worker.stopped", "worker.changed"] };
const MAX_GONE = 20; // workers that stopped while the page was open
const MAX_NAMED_RUNS = 3; // of one worker
const MAX_RUNS = 200; // of all workers together

export function Workers() {
  const session = useSession();
  const known = useRef({ before: [], gone: [] });
  const load = async (signal) => {
    const jobs = session.sees("jobs") ? get("jobs", { state: "running", order: "asc", limit: MAX_RUNS }, signal) : null;
    const [alive, page] = await Promise.all([loadWorkers(signal), jobs]);
    return withGone(known.current, page ? withRuns(alive, page) : alive);
  };
  const data = useData(load, [session], { live: FOLLOWED, every: 3 });
  return html`<${Head} title="Workers" />
    <${Loaded} data=${data}>${({ alive, gone }) => html`
      ${alive.length > 0 && html`<${Summary} workers=${alive} />`}
      ${alive.length + gone.length > 0 && html`<${Table} workers=${[...alive, ...gone]} after=${data.reload} />`}
      ${alive.length === 0 && html`<${Empty} title="No worker is running"
        code="mainspring worker MODULE:ATTR">Jobs wait until a worker is started:<//>`}`}<//>`;
}

/** The workers with their `runs`, the longest-running first. Their number is newer than that of the last heartbeat. */
function withRuns(workers, { items, next }) {
  const sorted = items.sort((a, b) => Date.parse(a.started_at) - Date.parse(b.started_at));
  const by = Object.groupBy(sorted, (job) => job.worker);
  return workers.map((worker) => {
    const runs = by[worker.id] ?? [];
    return { ...worker, runs, running: next ? worker.running : runs.length };
  });
}

/** The live workers, and those that are no longer in the API's list: they stay on the page, marked as gone. */
function withGone(known, alive) {
  const ids = new Set(alive.map((worker) => worker.id));
  const lost = known.before.filter((worker) => !ids.has(worker.id)).map((worker) => ({ ...worker, shown: "gone" }));
  known.gone = [...lost, ...known.gone.filter((worker) => !ids.has(worker.id))].slice(0, MAX_GONE);
  known.before = alive;
  return { alive, gone: known.gone };
}

function Summary({ workers }) {
  const sum = (name) => workers.reduce((total, worker) => total + worker[name], 0);
  const taking = workers.filter((worker) => worker.state === "open").length;
  const words = taking === workers.length ? "all accept jobs" : taking ? `${taking} accept jobs` : "none accepts jobs";
  const tiles = [
    ["Running", html`${count(workers.length)} <small>${words}</small>`],
    ["Slots used", html`${count(sum("running"))} <small>of ${count(sum("concurrency"))}</small>`],
    ["Runs finished", count(sum("finished"))], ["Memory", bytes(sum("memory"))],
  ];
  return html`<${Tiles} of=${tiles} />
    ${taking === 0 && html`<p class="notice" role="status">
      <${Icon} name="warning" /> ${plural(workers.length, "worker")} running, but none accepts jobs: resume one, or
      start another.</p>`}`;
}

function Table({ workers, after }) {
  return html`<div class="table workers"><table>
    <${Columns} of=${["Worker", "State", "Slots", "Running", "Queues", "#Finished", "#Memory", "#Up", "#Heartbeat",
      ""]} />
    <tbody>${workers.map((worker) => html`<${Row} key=${worker.id} worker=${worker}
      after=${after} />`)}</tbody></table></div>`;
}

function Row({ worker, after }) {
  const gone = worker.shown === "gone";
  return html`<tr class=${gone ? "muted" : ""}>
    <td data-label="" class="name"><span>${gone ? worker.id : html`<${WorkerLink} id=${worker.id} />`}
      <div class="muted">${worker.host}, pid ${worker.pid}</div></span></td>
    <td data-label="State"><${WorkerState} of=${worker} />${worker.deaf && !gone && html`<${PollsOnly} />`}</td>
    <td data-label="Slots">${gone ? "–" : html`<span><${Slots} of=${worker} /></span>`}</td>
    <td data-label="Running"><${Runs} of=${worker} gone=${gone} /></td>
    <td data-label="Queues"><${QueueNames} of=${worker} /></td>
    <td class="number" data-label="Finished">${count(worker.finished)}</td>
    <td class="number nowrap" data-label="Memory">${worker.memory ? bytes(worker.memory) : "–"}</td>
    <td class="number nowrap" data-label="Up">${gone ? "–" : html`<${Span} from=${worker.started_at} />`}</td>
    <td class="number nowrap" data-label="Heartbeat"><span class=${worker.shown === "late" ? "bad" : ""}>
      <${Time} at=${worker.beat_at} /></span></td>
    <td class="tight" data-label="">${!gone && html`<${WorkerActions} worker=${worker} after=${after} />`}</td></tr>`;
}

function Runs({ of: { runs = [], running }, gone }) {
  if (gone || !runs.length) return html`<span class="muted">–</span>`;
  const more = Math.max(running, runs.length) - Math.min(runs.length, MAX_NAMED_RUNS);
  return html`<ul class="worker-runs">${runs.slice(0, MAX_NAMED_RUNS).map((job) => html`<li key=${job.id}>
    <a href=${jobLink(job.id)}>${job.task}</a>${" "}
    <span class="muted nowrap"><${Span} from=${job.started_at} /></span></li>`)}
    ${more > 0 && html`<li class="muted">and ${count(more)} more</li>`}</ul>`;
}

/** The mark of a worker without notifications: it starts jobs later, at its poll interval. */
export const PollsOnly = () => html`<span class="state state-retrying"
  title="It gets no notifications, and polls for jobs at its poll interval">
  <${Icon} name="warning" />polls only</span>`;

export function QueueNames({ of: worker }) {
  if (worker.queues === null) return html`<span>every queue</span>`;
  return html`<span>${worker.queues.map((queue) => html`<span class="tag"
    key=${queue}>${queue}${queue in worker.queue_limits && ` ≤ ${worker.queue_limits[queue]}`}</span> `)}</span>`;
}
