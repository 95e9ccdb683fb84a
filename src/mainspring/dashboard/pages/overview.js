// /: is it healthy, what is failing, what will run next.
import { get, segment } from "../api.js";
import { now } from "../clock.js";
import { withPlainNumbers } from "../lossless_json.js";
import { html, useRef } from "../html.js";
import { useData } from "../live.js";
import { Health } from "../parts/health.js";
import { Empty, Head, Loaded } from "../parts/page.js";
import { STATES } from "../parts/state.js";
import { useWindow, WindowChoice } from "../parts/stats_window.js";
import { loadWorkers } from "../parts/worker.js";
import { useSession } from "../session.js";
import { Charts } from "./overview_charts.js";
import { Figures } from "./overview_figures.js";
import { Failures, NextTicks, Queues, Tasks, Workers } from "./overview_tables.js";

// Rare events, which show at once; the others are in the numbers two seconds later.
const RARE = ["job.dead", "job.retrying", "queue", "schedule.paused", "schedule.changed", "worker"];
const SPANS = ["15m", "1h", "6h", "24h", "7d"];
const HOUR_MS = 3600_000;
const MAX_DEAD = 100;

export function Overview() {
  const session = useSession();
  const window = useWindow("1h", SPANS);
  const figures = useData((signal) => loadFigures(session, window, signal), [window],
    { every: 2, live: session.sees("events") ? { type: RARE } : null });
  const problems = useData((signal) => loadProblems(session, signal), [], { every: 5 });
  const loaded = useRef(now());
  const failed = figures.error || problems.error;
  if (!failed) loaded.current = now();
  const facts = { ...figures.value, ...problems.value };
  const reload = () => (figures.reload(), problems.reload());
  return html`<${Head} title="Overview" actions=${html`<${WindowChoice} path="" value=${window} of=${SPANS} />`} />
    <${Loaded} data=${figures}>${() => html`<div class="stack overview">
      <${Health} facts=${facts} whole=${problems.value !== undefined} since=${failed && loaded.current}
        reload=${reload} />
      ${isNew(facts, problems.value) ? html`<${FirstSteps} />` : html`<${Page} window=${window} facts=${facts} />`}
    </div>`}<//>`;
}

function Page({ window, facts }) {
  const { stats, workers, outlook } = facts;
  return html`
    ${stats && html`<${Figures} stats=${stats} window=${window} />`}
    ${stats && html`<${Charts} stats=${stats} window=${window} />`}
    <div class="overview-columns">
      <div>${stats && html`<${Failures} stats=${stats} window=${window} />`}
        ${stats && html`<${Queues} stats=${stats} workers=${workers} />`}</div>
      <div>${outlook && html`<${NextTicks} outlook=${outlook} />`}
        ${workers && html`<${Workers} workers=${workers} />`}</div>
    </div>
    ${stats && html`<${Tasks} stats=${stats} window=${window} />`}`;
}

function FirstSteps() {
  return html`<section class="card"><${Empty} title="No jobs yet" code=${EXAMPLE}>
    A job is one call of a task, kept in the store until a worker has run it. Write a task, start a worker, and see it
    here:
  <//></section>`;
}

const EXAMPLE = `# hello.py
from mainspring import Mainspring

app = Mainspring("sqlite:///jobs.db")   # the store that this page shows

@app.task(max_retries=5)
async def greet(name: str) -> str:
    return f"Hello, {name}"

# in a shell
mainspring worker hello:app
mainspring enqueue greet --app hello:app name=Ada`;

function isNew({ stats, outlook }, known) {
  const none = stats && !stats.total.runs && STATES.every((state) => !stats[state]);
  return known && none && !outlook?.active && !outlook?.paused;
}

async function loadFigures(session, window, signal) {
  const [stats, workers] = await Promise.all([
    session.sees("stats") ? get("stats", { window }, signal).then(withPlainNumbers) : undefined,
    session.sees("workers") ? loadWorkers(signal) : undefined,
  ]);
  return { stats, workers };
}

async function loadProblems(session, signal) {
  const jobs = session.sees("jobs");
  const [outlook, died, oldest] = await Promise.all([
    session.sees("scheduler") ? get("scheduler/outlook", { limit: 8 }, signal) : undefined,
    jobs ? loadRecentDeaths(signal) : undefined,
    jobs && session.sees("queues") ? loadLongestWait(signal) : undefined,
  ]);
  return { outlook, died, oldest };
}

/** The jobs that died within the last hour, up to MAX_DEAD. */
async function loadRecentDeaths(signal) {
  const { items } = await get("jobs", { state: "dead", sort: "finished", limit: MAX_DEAD }, signal);
  const jobs = items.filter((job) => now() - Date.parse(job.finished_at) < HOUR_MS);
  return { jobs, more: jobs.length === MAX_DEAD };
}

/** The job that has been due for longest in a queue that is not paused, and why no worker takes it. */
async function loadLongestWait(signal) {
  const { items } = await get("queues", { paused: "false" }, signal);
  const queue = items.filter((one) => one.pending || one.retrying).map((one) => one.name).slice(0, 100);
  if (!queue.length) return null;
  const [job] = (await get("jobs", { state: ["pending", "retrying"], queue, sort: "due", limit: 1 }, signal)).items;
  return job ? { ...job, why: await loadReason(job, signal) } : null;
}

async function loadReason(job, signal) {
  if (now() - Date.parse(job.run_at) < 30_000) return undefined;
  const gone = (error) => (error.status === 404 ? [] : Promise.reject(error));
  const reasons = await get(`jobs/${segment(job.id)}/why`, {}, signal).catch(gone);
  return reasons.map((one) => one.text).join("; ");
}
