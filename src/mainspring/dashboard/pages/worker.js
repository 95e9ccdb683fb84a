// /workers/{id}: one worker, and its running jobs.
import { get } from "../api.js";
import { bytes, count, local, plural } from "../format.js";
import { html } from "../html.js";
import { useData } from "../live.js";
import { Columns } from "../parts/columns.js";
import { Empty, Facts, Head, Loaded } from "../parts/page.js";
import { Progress } from "../parts/progress.js";
import { queueLink } from "../parts/queue.js";
import { Span, Time } from "../parts/time.js";
import { loadWorker, Slots, WorkerActions, WorkerState } from "../parts/worker.js";
import { jobLink } from "../route.js";
import { useSession } from "../session.js";
import { PollsOnly, QueueNames } from "./workers.js";

const FOLLOWED = { type: ["worker.stopping", "worker.stopped", "worker.changed"] };
const DONE = {
  "workers.drain": "drained it", "workers.resume": "resumed it", "workers.resize": "resized it",
  "workers.stop": "stopped it",
};

export function Worker({ id }) {
  const session = useSession();
  const load = async (signal) => {
    const worker = await loadWorker(id, signal);
    if (!session.sees("audit")) return { worker, trail: [] };
    const { items } = await get("audit", { action: "workers", target: worker.id, limit: 5 }, signal);
    return { worker, trail: items };
  };
  const data = useData(load, [id, session], { live: FOLLOWED, every: 2 });
  const gone = data.error?.status === 404;
  const worker = data.value && (gone ? { ...data.value.worker, shown: "gone" } : data.value.worker);
  const actions = worker && !gone && html`<${WorkerActions} worker=${worker} after=${data.reload} />`;
  return html`<nav class="crumbs" aria-label="Where this is"><a href="workers">Workers</a></nav>
    <${Head} title=${id} actions=${actions}>${worker && html`<${WorkerState}
      of=${worker} />`}${worker?.deaf && html`<${PollsOnly} />`}<//>
    ${gone && !worker && html`<${Empty} title="This worker is not running"><p>${data.error.message}</p><p>
      <a href="workers">All workers</a></p><//>`}
    ${!(gone && !worker) && html`<${Loaded} data=${data}>${({ trail }) => html`<${Page} worker=${worker} gone=${gone}
      trail=${trail} />`}<//>`}`;
}

function Page({ worker, gone, trail }) {
  const ordered = worker.orders.concurrency;
  return html`<div class="stack"><div class="card"><${Facts} of=${[
    ["Slots used", html`<${Slots} of=${worker} />`], ["Resized to", ordered ? plural(ordered, "slot") : undefined],
    ["Host", worker.host], ["Process", String(worker.pid)], ["Queues", html`<${QueueNames} of=${worker} />`],
    ["Memory", worker.memory ? bytes(worker.memory) : "–"], ["Runs finished", count(worker.finished)],
    ["Last heartbeat", html`<${Time} at=${worker.beat_at} />`], ["Lease until", html`<${Time}
      at=${worker.until} />`],
    ["Started", html`<${Time} at=${worker.started_at} /> <span
      class="muted nowrap">${local(Date.parse(worker.started_at))}</span>`],
  ]} /></div>
  <section><h2>${gone ? "Jobs at its last heartbeat" : "Running jobs"}</h2>
    ${gone && worker.jobs.length > 0 && html`<p
      class="muted">Other workers retry these, as their tasks' retries allow.</p>`}
    ${worker.jobs.length ? html`<${Jobs} jobs=${worker.jobs} />` : html`<p
      class="muted">${gone ? "None." : "None: it is waiting for jobs."}</p>`}</section>
  <section class="card"><h2>Tasks</h2>
    <p class="tags">${worker.tasks.map((task) => html`<span class="tag"
    key=${task}>${task}${task in worker.limits && ` ≤ ${worker.limits[task]} at once`}</span> `)}</p></section>
  ${trail.length > 0 && html`<section><h2>Orders</h2>
    <ul class="trail">${trail.map((entry) => html`<li key=${entry.id}>
    <b>${entry.who}</b> ${DONE[entry.action] ?? entry.action}
    ${entry.action === "workers.resize" && ` to ${entry.asked.concurrency ?? "its original size"}`}
    ${" "}<span class="muted"><${Time} at=${entry.at} /></span></li>`)}</ul></section>`}</div>`;
}

function Jobs({ jobs }) {
  return html`<div class="table"><table>
    <${Columns} of=${["Job", "Queue", "#Attempt", "#Running for", "Progress"]} />
    <tbody>${jobs.map((job) => html`<tr key=${job.id}>
      <td data-label="" class="name"><span><a href=${jobLink(job.id)}>
        <b>${job.task}</b></a> <span class="muted code">${job.id}</span></span></td>
      <td data-label="Queue"><a href=${queueLink(job.queue)}>${job.queue}</a></td>
      <td class="number" data-label="Attempt">${job.attempt}</td>
      <td class="number nowrap" data-label="Running for"><${Span} from=${job.started_at} /></td>
      <td data-label="Progress">${job.progress ? html`<${Progress} of=${job.progress} />` : html`<span
        class="muted">–</span>`}</td></tr>`)}</tbody></table></div>`;
}
