// /queues/{name}: one queue: its depth and rate, its workers, tasks and pauses.
import { get, segment } from "../api.js";
import { count, duration, percent, rate } from "../format.js";
import { html } from "../html.js";
import { useData } from "../live.js";
import { Columns } from "../parts/columns.js";
import { Icon } from "../parts/icons.js";
import { Head, Loaded } from "../parts/page.js";
import { JobsFigure, oldestOf, PauseButton, Paused } from "../parts/queue.js";
import { blockedReason, queueWorkers, queueSlots } from "../parts/queue_workers.js";
import { Tiles } from "../parts/tiles.js";
import { Span, Time } from "../parts/time.js";
import { useWindow, WindowChoice, WINDOWS } from "../parts/stats_window.js";
import { WorkerLink, WorkerState } from "../parts/worker.js";
import { jobsLink } from "../route.js";
import { useSession } from "../session.js";
import { Charts } from "./overview_charts.js";

const MAX_TASKS = 20; // with the most runs
const BY_MINUTE = { "15m": true, "1h": true }; // windows that show the rate of the last minutes
const FOLLOWED = { type: ["queue.paused", "queue.resumed", "worker.started", "worker.stopped", "worker.changed"] };

export function Queue({ id }) {
  const session = useSession();
  const window = useWindow();
  const load = (signal) => loadQueue(session, id, window, signal);
  const data = useData(load, [id, window, session], { live: FOLLOWED, every: 3 });
  const queue = data.value?.queue;
  const actions = html`<${WindowChoice} path=${`queues/${segment(id)}`} value=${window} />
    ${queue && html`<${PauseButton} queue=${queue} after=${data.reload} />`}`;
  return html`<nav class="crumbs" aria-label="Where this is"><a href="queues">Queues</a></nav>
    <${Head} title=${id} actions=${actions}>${queue?.paused && html`<${Paused} queue=${queue} />`}<//>
    <${Loaded} data=${data}>${(value) => html`<${Page} value=${value} window=${window} />`}<//>`;
}

async function loadQueue(session, name, window, signal) {
  const seen = (scope, path, query) => (session.sees(scope) ? get(path, query, signal) : null);
  const [queue, stats, workers, pauses] = await Promise.all([
    get(`queues/${segment(name)}`, {}, signal),
    seen("stats", "stats", { window, queue: name }), seen("workers", "workers"),
    get(`queues/${segment(name)}/pauses`, {}, signal),
  ]);
  const oldest = queue.pending && session.sees("jobs") ? await oldestOf(name, signal) : null;
  return { queue, stats, workers: workers?.items, pauses, oldest };
}

function Page({ value, window }) {
  const { queue, stats, workers, pauses } = value;
  return html`<${BlockedNotice} queue=${queue} workers=${workers} /><${Figures} value=${value} window=${window} />
    <div class="stack">
    ${stats && html`<${Charts} stats=${stats} window=${window} queue=${queue.name} />`}
    ${workers && html`<${Servers} workers=${workers} queue=${queue.name} tasks=${Object.keys(stats?.by_task ?? {})} />`}
    ${stats && html`<${Tasks} stats=${stats} queue=${queue.name} />`}
    ${pauses.length > 0 && html`<${Pauses} of=${pauses} />`}</div>`;
}

function BlockedNotice({ queue, workers }) {
  const words = workers && blockedReason(queueWorkers(workers, queue.name));
  if (!words || !(queue.pending + queue.retrying)) return null;
  return html`<p class="notice" role="status"><${Icon} name="warning" />
    <span>${words}, so its jobs wait. ${words.startsWith("No")
    ? html`Start one: <code>mainspring worker MODULE:ATTR --queues ${queue.name}</code>` : html`<a
      href="workers">Resume one of them</a>.`}</span></p>`;
}

function Figures({ value: { queue, stats, oldest }, window }) {
  const [words] = WINDOWS[window];
  const of = (state) => html`<${JobsFigure} n=${queue[state]} queue=${queue.name}
    state=${state}>${count(queue[state])}<//>`;
  const total = stats?.total;
  const tiles = [
    ["Pending", html`${of("pending")} ${oldest && html`<small>oldest <${Span} from=${oldest} /></small>`}`],
    ["Running", of("running")], ["Retrying", of("retrying")], ["Scheduled", of("scheduled")],
    ...(total ? [
      [`Runs in ${words}`, html`${count(total.runs)} <small
        title=${window in BY_MINUTE ? "in the last 5 minutes" : "on average"}>
        ${rate(Number(stats.per_minute ?? 0))}/min${
        window in BY_MINUTE ? " now" : ""}</small>`],
      ["Success", html`${percent(total.success_rate)} ${total.failed > 0 && html`<small
        class="bad">${count(total.failed)} failed</small>`}`],
      ["Wait p50 / p95", html`${duration(total.wait_p50)} <small>/ ${duration(total.wait_p95)}</small>`],
      ["Run p50 / p95", html`${duration(total.p50)} <small>/ ${duration(total.p95)}</small>`],
    ] : []),
  ];
  return html`<${Tiles} of=${tiles} />`;
}

function Servers({ workers, queue, tasks }) {
  const all = queueWorkers(workers, queue).all;
  if (!all.length) return null;
  const limited = (worker) => Object.entries(worker.limits).filter(([task]) => tasks.includes(task));
  return html`<section><h2>Workers</h2><div class="table"><table>
    <${Columns} of=${["Worker", "State", "#Slots", "Limits", "Serves"]} />
    <tbody>${all.map((worker) => html`<tr key=${worker.id}><td data-label="" class="name">
      <${WorkerLink} id=${worker.id} /></td>
      <td data-label="State"><${WorkerState} of=${worker} /></td>
      <td class="number" data-label="Slots">${count(queueSlots(worker, queue))}</td>
      <td data-label="Limits"><span>${queue in worker.queue_limits && html`<span
        class="tag">queue: ${worker.queue_limits[queue]} at once</span> `}
        ${limited(worker).map(([task, most]) => html`<span class="tag" key=${task}>${task}: ${most} at once</span> `)}
        ${!(queue in worker.queue_limits) && !limited(worker).length && html`<span
          class="muted">none</span>`}</span></td>
      <td data-label="Serves">${worker.queues === null ? "every queue" : worker.queues.join(", ")}</td></tr>`)}</tbody>
    </table></div></section>`;
}

function Tasks({ stats, queue }) {
  const ran = Object.entries(stats.by_task).filter(([, one]) => one.runs);
  const tasks = ran.sort(([, a], [, b]) => b.runs - a.runs).slice(0, MAX_TASKS);
  if (!tasks.length) return null;
  return html`<section><h2>Tasks</h2><div class="table"><table>
    <${Columns} of=${["Task", "#Runs", "#Failed", "#Success", "#Wait p50 / p95", "#Run p50 / p95", "#Last"]} />
    <tbody>${tasks.map(([task, one]) => html`<tr key=${task}><td data-label="" class="name">
      <a href=${jobsLink({ queue, task })}>${task}</a></td>
      <td class="number" data-label="Runs">${count(one.runs)}</td>
      <td class="number" data-label="Failed"><span
        class=${one.failed ? "bad" : "muted"}>${count(one.failed)}</span></td>
      <td class="number" data-label="Success">${percent(one.success_rate)}</td>
      <td class="number nowrap" data-label="Wait p50 / p95">${duration(one.wait_p50)} / ${duration(one.wait_p95)}</td>
      <td class="number nowrap" data-label="Run p50 / p95">${duration(one.p50)} / ${duration(one.p95)}</td>
      <td class="number nowrap" data-label="Last">
        <${Time} at=${one.last_at} /></td></tr>`)}</tbody></table></div></section>`;
}

const MAX_PAUSES = 10;

function Pauses({ of: pauses }) {
  return html`<section><h2>Pauses</h2><ul class="trail">${pauses.slice(0, MAX_PAUSES).map((pause) => html`
    <li key=${pause.at}><b>${pause.who ?? "unknown"}</b> paused it <span class="muted"><${Time} at=${pause.at} /></span>
      ${pause.until ? html`, for <${Span} from=${pause.at} until=${pause.until} />` : ", until now"}
      ${pause.note && html`: ${pause.note}`}</li>`)}</ul></section>`;
}
