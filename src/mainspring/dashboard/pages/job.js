// One job: why it is not running, its runs, its arguments and result, its log.
import { get, segment } from "../api.js";
import { html, useMemo, useRef, useState } from "../html.js";
import { useData, useNotices } from "../live.js";
import { Copy } from "../parts/copy.js";
import { useEnqueuer } from "../parts/enqueuer.js";
import { JobActions } from "../parts/job_actions.js";
import { JobFacts } from "../parts/job_facts.js";
import { JobProgress } from "../parts/job_progress.js";
import { Lifeline } from "../parts/lifeline.js";
import { Log } from "../parts/log.js";
import { Empty, Head, Loaded, Trouble } from "../parts/page.js";
import { Run, Runs } from "../parts/runs.js";
import { State } from "../parts/state.js";
import { Tree } from "../parts/tree.js";
import { Why } from "../parts/why.js";
import { go, jobLink, link, useRoute } from "../route.js";
import { useSession } from "../session.js";

// Runs shown, the newest; and seconds between two looks at what no event of the job tells: queues, workers, breakers.
const RUNS = 50, LOOK = 5;
const FINAL = new Set(["completed", "dead", "cancelled", "expired"]);

async function load(session, id, signal) {
  const at = `jobs/${segment(id)}`;
  const [job, reasons] = await Promise.all([get(at, {}, signal), get(`${at}/why`, {}, signal)]);
  const last = { after: Math.max(0, job.runs - RUNS), limit: RUNS };
  const [runs, pauses] = await Promise.all([
    job.runs ? get(`${at}/executions`, last, signal) : { items: [] },
    session.sees("queues") ? get(`queues/${segment(job.queue)}/pauses`, {}, signal) : [],
  ]);
  return { job, reasons, runs: runs.items, pauses };
}

export function Job({ id }) {
  const session = useSession();
  const [final, end] = useState(false);
  const [gone, leave] = useState(false);
  const data = useData(async (signal) => {
    const found = await load(session, id, signal);
    end(FINAL.has(found.job.shown));
    return found;
  }, [id], { every: final || gone ? 0 : LOOK });
  const ear = useRef(() => {});
  const [told, tell] = useState(null);
  useNotices({ job: id }, (notice) => {
    if (notice.type === "job.log") ear.current(notice);
    else if (notice.type === "job.progress") tell(notice.progress);
    else if (notice.action === "delete") leave(true);
    else data.soon();
  }, data.soon);
  if (gone || data.error?.status === 404) return html`<${Missing} id=${id} />`;
  if (!data.value) return html`<${Head} title="Job" /><${Loaded} data=${data} />`;
  return html`${data.error && html`<${Trouble} error=${data.error} retry=${data.reload} />`}
    <${Whole} ...${data.value} told=${told} ear=${ear} changed=${data.reload} />`;
}

function Whole({ job, reasons, runs, pauses, told, ear, changed }) {
  const { query } = useRoute();
  const chosen = /^[1-9]\d{0,8}$/.test(query.get("run")) ? Number(query.get("run")) : null;
  const choose = (run) => go(link(jobLink(job.id), { run }), { replace: true });
  const run = runs.find((one) => one.number === chosen);
  const progress = newest(job.progress, told);
  const turn = `${job.runs} ${job.state}`;
  return html`
    <nav class="crumbs" aria-label="Where this is"><a href="jobs">Jobs</a></nav>
    <${Head} title=${job.task} actions=${html`<${JobActions} job=${job} changed=${changed} />`}>
      <span role="status"><${State} of=${job.outcome ?? job.shown} /></span>
      <span class="job-id"><code>${job.id}</code><${Copy} text=${job.id} name="the id" /></span>
    <//>
    <div class="stack">
      <${Why} job=${job} reasons=${reasons} changed=${changed}>
        ${progress && job.state !== "completed" && html`<${JobProgress} job=${job} progress=${progress} />`}<//>
      <section class="card" aria-label="Timeline"><h2>Timeline</h2>
        <${Lifeline} job=${job} runs=${runs} pauses=${pauses} chosen=${chosen} onChoose=${choose} /></section>
      <div class="job-columns">
        <div class="stack">
          <section class="card" aria-label="Runs">
            <h2>Runs ${job.runs > RUNS && html`<span class="muted">the newest ${RUNS} of ${job.runs}</span>`}</h2>
            <${Runs} job=${job} runs=${runs} chosen=${chosen} onChoose=${choose} /></section>
          ${run && html`<${Run} key=${run.number} run=${run} onClose=${() => choose(null)} />`}
          <${Log} key=${`${job.id} ${chosen}`} id=${job.id} runs=${job.runs} run=${chosen} ear=${ear} turn=${turn}
            following=${!FINAL.has(job.shown)} />
        </div>
        <div class="stack"><${Given} job=${job} /></div>
      </div>
    </div>`;
}

/** Its facts, and what was put in and came out. */
function Given({ job }) {
  const by = useEnqueuer(job);
  const tasks = useData((signal) => get("tasks", {}, signal), [job.task]);
  const rules = useMemo(() => tasks.value?.items.find((one) => one.name === job.task), [tasks.value]);
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
      : html`<${Tree} value=${value} name=${title.toLowerCase()} />`}</section>`;
}

/** The feed may be ahead of what was loaded, and what was loaded of the feed. */
function newest(one, other) {
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
