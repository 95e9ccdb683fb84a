// Why a job is not running, and how to fix it.
import { get, post, segment } from "../api.js";
import { local, utc } from "../format.js";
import { html, useState } from "../html.js";
import { useData } from "../live.js";
import { jobLink, link } from "../route.js";
import { useSession } from "../session.js";
import { ActionButton } from "./action_button.js";
import { CopyButton } from "./copy_button.js";
import { Failure } from "./failure.js";
import { GiveSignal } from "./give_signal.js";
import { Icon } from "./icons.js";
import { Redrive } from "./job_edit.js";
import { Time } from "./time.js";
import { workerLink } from "./worker.js";

const TITLES = {
  running: "Running", waiting: "What it waits for", dead: "Why it is dead", completed: "Completed",
  cancelled: "Cancelled", expired: "Expired",
};
const STYLES = { dead: "bad", completed: "good", cancelled: "plain", expired: "plain" };
// Reasons that are not a problem.
const HARMLESS = new Set([
  "running", "next", "not_due", "collecting", "asleep", "final", "waiting", "waits_for_signal",
]);

const MAX_NAMED_JOBS = 2; // blocking jobs that are listed without a click

/** `changed` is called after each fix. `children` are shown below. `isFlow`: a retry is one of its steps. */
export function Why({ job, reasons, changed, isFlow = false, children }) {
  const harmless = ({ code, cause }) => HARMLESS.has(cause ?? code);
  const look = STYLES[job.shown] ?? (reasons.every(harmless) ? "calm" : "warn");
  const failed = job.failure && (job.shown === "dead" || job.shown === "retrying");
  return html`<section class=${`card why why-${look}`} aria-label="Why">
    <h2><${Icon} name=${look === "warn" ? "warning" : job.shown} />${" "}
      ${TITLES[job.shown] ?? "Why is it not running?"}</h2>
    <ul aria-live="polite">${reasons.map((reason, n) => html`<li key=${`${reason.code}-${n}`}>
      <div class="why-words">${sentence(reason, job)}</div>
      <${Fix} reason=${reason} job=${job} changed=${changed} isFlow=${isFlow} /></li>`)}</ul>
    ${failed && html`<div>${job.shown === "retrying" && html`<h3>Last failure</h3>`}
      <${Failure} of=${job.failure} open=${job.shown === "dead"} /></div>`}
    ${children}
  </section>`;
}

const AGO = / \d+ (?:d|h|min|s) ago \((\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ)\)/;
const INSTANT = /(\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ)/;

/** The API's text with its times in the viewer's zone. The failure of a dead job is omitted: it is shown below. */
function sentence({ code, text }, job) {
  const cut = code === "final" && job.failure && job.shown === "dead" ? text.indexOf("Z: ") + 1 : text.length;
  const words = `${text.slice(0, 1).toUpperCase()}${text.slice(1, cut)}`.replace(AGO, " at $1")
    .replaceAll(" <- ", " ← ");
  const parts = words.split(INSTANT).map((part, n) => (n % 2 ? html`<${Instant} at=${part} />` : part));
  return html`${parts}${/[.?!]$/.test(words) ? "" : "."}`;
}

function Instant({ at }) {
  const when = new Date(at.replace(" ", "T"));
  return html`<span class="nowrap" title=${utc(when)}>${local(when)}</span> (<${Time} at=${when.toISOString()} />)`;
}

function Fix({ reason, job, changed, isFlow }) {
  const { may } = useSession();
  const fix = (words, run, allowed) => allowed && html`<${ActionButton} kind="primary" icon="play" run=${async () => {
    const message = await run();
    await changed();
    return message;
  }}>${words}<//>`;
  const jobs = may("operator", "jobs"), can = (action) => jobs && job.can.includes(action);
  const sent = (path, words, body) => async () => (await post(path, body), words);
  const at = `jobs/${segment(job.id)}`, queue = `queues/${segment(job.queue)}`;
  const failures = { task: job.task, state: ["dead", "retrying"] };
  const holders = reason.holders.length > 0 && html`<${Holders} ids=${reason.holders} />`;
  switch (reason.code) {
    case "queue_paused": return fix(
      `Resume queue ${job.queue}`, sent(`${queue}/resume`, `Resumed queue ${job.queue}.`), may("operator", "queues"),
    );
    case "paused": return fix("Resume", sent(`${at}/resume`, "Resumed."), can("resume"));
    case "not_due": case "collecting":
      return fix("Run now", sent(`${at}/reschedule`, "Due now.", { delay: 0 }), can("update"));
    case "version_skew": return html`
      ${fix("Try now", sent(`${at}/reschedule`, "Due now.", { delay: 0 }), can("update"))}
      <a class="button" href="workers">Workers</a>`;
    case "no_worker": return html`<${Command} text="mainspring worker" />`;
    case "unknown_task": return html`<${Command} text=${`mainspring worker --app MODULE:APP`}
      words=${`with an app that has the task ${job.task}`} />`;
    case "queue_not_served": return html`<${Command} text=${`mainspring worker --queues ${shellQuoted(job.queue)}`} />`;
    case "draining": return html`<${Drained} job=${job} changed=${changed} />`;
    case "workers_full": return html`${holders}<a class="button" href="workers">Workers</a>`;
    case "breaker_open": return html`${holders}<a class="button" href=${link("jobs", failures)}>Failures</a>`;
    case "limit_reached": return html`${holders}
      <a class="button" href=${link("jobs", { task: job.task, state: "running" })}>Running jobs of the task</a>`;
    case "running": return job.worker && html`<a class="button" href=${workerLink(job.worker)}>Worker</a>`;
    case "expired": case "final": return can("retry")
      && html`<${RetryButtons} job=${job} fix=${fix} changed=${changed} isFlow=${isFlow} />`;
    case "waits_for_signal": return reason.signal && html`
      <${GiveSignal} id=${job.id} step=${{ name: reason.signal, status: "waiting", signal: {} }} changed=${changed} />`;
    case "waits_for_steps": return reason.holders.map((id) => html`
      <a key=${id} class="button" href=${jobLink(id)}>The step's job</a>`);
    default: return holders || null;
  }
}

/** The buttons that retry a finished job; the arguments of a dead one can be changed. */
function RetryButtons({ job, fix, changed, isFlow }) {
  const [open, set] = useState(false);
  const dead = job.shown === "dead";
  const again = async () => (await post(`jobs/${segment(job.id)}/retry`), "Queued again.");
  return html`${fix(isFlow ? "Retry from what failed" : dead ? "Redrive" : "Retry", again, true)}
    ${dead && !isFlow
      && html`<button type="button" onClick=${() => set(true)}><${Icon} name="edit" />Edit and redrive</button>`}
    ${open && html`<${Redrive} job=${job} onClose=${() => set(false)} onDone=${changed} />`}`;
}

function Holders({ ids }) {
  const links = ids.map((id) => html`<a key=${id} href=${jobLink(id)}><code>${id}</code></a> `);
  const words = "Blocked by";
  if (ids.length <= MAX_NAMED_JOBS) return html`<span class="holders">${words} ${links}</span>`;
  return html`<details class="holders"><summary>Blocked by ${ids.length} jobs</summary>${links}</details>`;
}

function Command({ text, words }) {
  return html`<span class="command"><code>${text}</code><${CopyButton} text=${text} name="the command" />
    ${words && html`<span class="muted">${words}</span>`}</span>`;
}

/** The text quoted for a shell. */
const shellQuoted = (name) => (/^[\w./:-]+$/.test(name) ? name : `'${name.replaceAll("'", `'\\''`)}'`);

function Drained({ job, changed }) {
  const { may } = useSession();
  const { value } = useData((signal) => get("workers", {}, signal), [job.id], { every: 10 });
  const serves = (one) => one.tasks.includes(job.task) && (!one.queues || one.queues.includes(job.queue));
  const able = (value?.items ?? []).filter((one) => !["open", "stopping"].includes(one.state) && serves(one));
  const resume = async (id) => {
    await post(`workers/${segment(id)}/resume`);
    await changed();
    return `Worker ${id} resumes at its next heartbeat.`;
  };
  return able.slice(0, 5).map(({ id }) => (may("operator", "workers")
    ? html`<${ActionButton} key=${id} kind="primary" icon="play" run=${() => resume(id)}>Resume worker ${id}<//>`
    : html`<a key=${id} class="button" href=${workerLink(id)}>${id}</a>`));
}
