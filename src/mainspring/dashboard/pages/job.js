// /jobs/{id}: one job: why it is not running, its runs, its arguments and result, its log.
import { get, segment } from "../api.js";
import { html, useRef, useState } from "../html.js";
import { useData, useEvents } from "../live.js";
import { CopyButton } from "../parts/copy_button.js";
import { useEnqueuer } from "../parts/enqueuer.js";
import { Icon } from "../parts/icons.js";
import { JobActions } from "../parts/job_actions.js";
import { JobFacts } from "../parts/job_facts.js";
import { JobProgress } from "../parts/job_progress.js";
import { JobTimeline } from "../parts/job_timeline.js";
import { Log } from "../parts/log.js";
import { Output } from "../parts/output.js";
import { Empty, Head, Loaded, ErrorNotice } from "../parts/page.js";
import { Run, Runs } from "../parts/runs.js";
import { State } from "../parts/state.js";
import { StoredSteps } from "../parts/stored_steps.js";
import { JsonTree } from "../parts/json_tree.js";
import { Why } from "../parts/why.js";
import { flowLink, go, jobLink, link, useRoute } from "../route.js";
import { useSession } from "../session.js";

const MAX_RUNS = 50; // shown, the newest
const RELOAD_SECONDS = 5; // for changes without an event of this job: queues, workers, breakers
const FINAL = new Set(["completed", "dead", "cancelled", "expired"]);

async function load(session, id, signal) {
  const at = `jobs/${segment(id)}`;
  const [job, reasons] = await Promise.all([get(at, {}, signal), get(`${at}/why`, {}, signal)]);
  const last = { after: Math.max(0, job.runs - MAX_RUNS), limit: MAX_RUNS };
  const [runs, pauses] = await Promise.all([
    job.runs ? get(`${at}/executions`, last, signal) : { items: [] },
    session.sees("queues") ? get(`queues/${segment(job.queue)}/pauses`, {}, signal) : [],
  ]);
  const ended = job.runs - (job.state === "running"); // those that ended since the job was read are left out
  return { job, reasons, runs: runs.items.filter((run) => run.number <= ended), pauses };
}

export function Job({ id }) {
  const session = useSession();
  const [final, end] = useState(false);
  const [gone, leave] = useState(false);
  const data = useData(async (signal) => {
    const found = await load(session, id, signal);
    end(FINAL.has(found.job.shown));
    return found;
  }, [id], { every: final || gone ? 0 : RELOAD_SECONDS });
  const logHandler = useRef(() => {}), outputHandler = useRef(() => {});
  const [liveProgress, setLiveProgress] = useState(null);
  useEvents({ job: id }, (event) => {
    if (event.type === "job.log") logHandler.current(event);
    else if (event.type === "job.output") outputHandler.current(event.chunk);
    else if (event.type === "job.progress") setLiveProgress(event.progress);
    else if (event.action === "delete") leave(true);
    else data.soon();
  }, data.soon);
  if (gone || data.error?.status === 404) return html`<${Missing} id=${id} />`;
  if (!data.value) return html`<${Head} title="Job" /><${Loaded} data=${data} />`;
  return html`${data.error && html`<${ErrorNotice} error=${data.error} retry=${data.reload} />`}
    <${JobPage} ...${data.value} liveProgress=${liveProgress} logHandler=${logHandler}
      outputHandler=${outputHandler} changed=${data.reload} />`;
}

function JobPage({ job, reasons, runs, pauses, liveProgress, logHandler, outputHandler, changed }) {
  const { query } = useRoute();
  const chosen = /^[1-9]\d{0,8}$/.test(query.get("run")) ? Number(query.get("run")) : null;
  const choose = (run) => go(link(jobLink(job.id), { run }), { replace: true });
  const run = runs.find((one) => one.number === chosen);
  const tasks = useData((signal) => get("tasks", {}, signal), [job.task]);
  const rules = tasks.value?.items.find((one) => one.name === job.task);
  const flow = !tasks.loading && (seemsFlow(job, runs, reasons) && rules?.flow !== false
    || reasons.some((one) => one.code === "waits_for_steps"));
  const progress = newerProgress(job.progress, liveProgress);
  const version = `${job.runs} ${job.state}`;
  return html`
    <nav class="crumbs" aria-label="Where this is"><a href="jobs">Jobs</a></nav>
    <${Head} title=${job.task}
      actions=${html`<${FlowLinks} job=${job} flow=${flow} /><${JobActions} job=${job} changed=${changed} />`}>
      <span role="status"><${State} of=${job.outcome ?? job.shown} /></span>
      <span class="job-id"><code>${job.id}</code><${CopyButton} text=${job.id} name="the id" /></span>
    <//>
    <div class="stack">
      <${Why} job=${job} reasons=${reasons} changed=${changed} isFlow=${flow}>
        ${progress && job.state !== "completed" && html`<${JobProgress} job=${job} progress=${progress} />`}<//>
      <section class="card" aria-label="Timeline"><h2>Timeline</h2>
        <${JobTimeline} job=${job} runs=${runs} pauses=${pauses} flow=${flow} chosen=${chosen}
          onChoose=${choose} /></section>
      <div class="job-columns">
        <div class="stack">
          <section class="card" aria-label="Runs">
            <h2>Runs ${job.runs > MAX_RUNS
              && html`<span class="muted">the newest ${MAX_RUNS} of ${job.runs}</span>`}</h2>
            <${Runs} job=${job} runs=${runs} chosen=${chosen} onChoose=${choose} /></section>
          ${run && html`<${Run} key=${run.number} run=${run} onClose=${() => choose(null)} />`}
          <${StoredSteps} key=${job.id} id=${job.id} version=${version} following=${!FINAL.has(job.shown)} />
          <${Output} key=${job.id} id=${job.id} eventHandler=${outputHandler} version=${version}
            following=${!FINAL.has(job.shown)} />
          <${Log} key=${`${job.id} ${chosen}`} id=${job.id} runs=${job.runs} run=${chosen} eventHandler=${logHandler}
            version=${version} following=${!FINAL.has(job.shown)} />
        </div>
        <div class="stack"><${Details} job=${job} rules=${rules} /></div>
      </div>
    </div>`;
}

function FlowLinks({ job, flow }) {
  if (!useSession().sees("flows")) return null;
  return html`
    ${flow && html`<a class="button primary" href=${flowLink(job.id)}><${Icon} name="flow" />Steps</a>`}
    ${job.step && html`<a class="button" href=${link(flowLink(job.step.flow), { number: stepNumber(job.step) })}>
      <${Icon} name="flow" />Its flow</a>`}`;
}

/** The number of a job's step in its flow: 24 bits of its position, which may have more digits than a number. */
const stepNumber = ({ position }) => String((BigInt(String(position)) >> 32n) & 0xffffffn);
/** A flow was suspended by its first run, which plans it. So are durable jobs. */
const seemsFlow = (job, runs, reasons) => (job.state === "waiting"
  ? !reasons.some((one) => one.signal)
  : runs.some((run) => run.ending === "suspended"));

/** The properties, arguments, result and metadata of a job. */
function Details({ job, rules }) {
  const by = useEnqueuer(job);
  return html`
    <section class="card" aria-label="Facts"><h2>Facts</h2><${JobFacts} job=${job} rules=${rules} by=${by} /></section>
    <${Value} title="Arguments" value=${job.payload} none="None." />
    ${job.state === "completed" && html`<${Value} title="Result" value=${job.result} none="None." />`}
    ${Object.keys(job.metadata).length > 0 && html`<${Value} title="Metadata" value=${job.metadata} />`}`;
}

function Value({ title, value, none }) {
  const empty = value === null || (typeof value === "object" && !Object.keys(value).length && !("text" in value));
  return html`<section class="card" aria-label=${title}><h2>${title}</h2>
    ${empty
      ? html`<p class="muted">${none}</p>`
      : html`<${JsonTree} value=${value} name=${title.toLowerCase()} />`}</section>`;
}

/** The newer of the loaded progress and that of the feed: either may be ahead. */
function newerProgress(one, other) {
  if (!one || !other) return one ?? other;
  return Date.parse(other.at) > Date.parse(one.at) ? other : one;
}

function Missing({ id }) {
  return html`<${Head} title="No such job" />
    <${Empty} title="There is no job with this id" code=${"mainspring jobs list\nmainspring jobs list --state dead"}>
      <p class="job-missing"><code>${id}</code></p>
      <p class="job-missing">It may have been deleted, or finished and pruned: finished jobs are kept for a limited
        time. It may also be in another store than the one of this server.</p>
      <p><a class="button primary" href="jobs">All jobs</a>${" "}
        <a class="button" href=${link("audit", { target: id })}>Audit log of this id</a></p>
    <//>`;
}
