// The tables of the overview: failures, next ticks, workers, queues and tasks.
import { get } from "../api.js";
import { useNow } from "../clock.js";
import { localAndUtc, bytes, count, duration, percent, plural } from "../format.js";
import { html, useState } from "../html.js";
import { useData } from "../live.js";
import { Icon } from "../parts/icons.js";
import { JobsFigure, queueLink } from "../parts/queue.js";
import { blockedReason, queueWorkers } from "../parts/queue_workers.js";
import { State } from "../parts/state.js";
import { Time } from "../parts/time.js";
import { windowText } from "../parts/stats_window.js";
import { Slots, workerLink, WorkerState } from "../parts/worker.js";
import { link, scheduleLink } from "../route.js";
import { useSession } from "../session.js";

const NARROW = matchMedia("(max-width: 640px)");
const listRows = () => (NARROW.matches ? 4 : 8); // rows of a list
const taskRows = () => (NARROW.matches ? 5 : 12); // tasks shown at first
const OTHER_ERRORS = "(other errors)"; // a group of several errors, by which jobs cannot be filtered

/** A table with a title and a link to the full list. `heads` are column names: the first column is a name, the others
 * are numbers. */
function Panel({ title, more, href, heads, rows, nothing, rest = 0 }) {
  return html`<section class="overview-panel">
    <header><h2>${title}</h2>${more && html`<a href=${href}>${more}</a>`}</header>
    ${rows.length ? html`<div class="table"><table>
      <thead><tr>${heads.map((head, n) => html`
        <th key=${head} scope="col" class=${n ? "number" : ""}>${head}</th>`)}</tr></thead>
      <tbody>${rows}</tbody></table></div>` : html`<p class="card overview-nothing">${nothing}</p>`}
    ${rest > 0 && html`<p class="muted">and ${count(rest)} more</p>`}
  </section>`;
}

/** The name of a row, with a description below. */
const Name = ({ href, name, words, children }) => html`<td data-label=""><span class="overview-two">
  <span class="row">${href ? html`<a href=${href}>${name}</a>` : name}${children}</span>
  ${words && html`<span class="muted">${words}</span>`}</span></td>`;
const Cell = ({ of, less, children }) => html`
  <td data-label=${of} class=${`number nowrap ${less ? "overview-less" : ""}`}>${children}</td>`;
const Failed = ({ n, href, label }) => (n
  ? html`<a class="state-dead" href=${href} aria-label=${label}>${count(n)}</a>` : html`<span class="muted">0</span>`);

export function Failures({ stats, window }) {
  const session = useSession();
  const rows = stats.errors.slice(0, listRows());
  // Counting the groups reads every dead job, so it is done less often.
  const load = (signal) => (session.sees("dead") ? get("dead", {}, signal).then((page) => page.items) : []);
  const { value: dead = [] } = useData(load, [rows.length], { every: 15 });
  const gone = (error) => dead.filter((one) => one.error === error).reduce((sum, one) => sum + one.count, 0);
  return html`<${Panel} title="Failures by error" more="Dead letters" href="dead" heads=${["Error", "Runs", "Dead now"]}
    nothing=${`No run has failed in ${windowText(window)}.`} rest=${stats.errors.length - rows.length}
    rows=${rows.map(({ error, message, count: runs, tasks }) => html`<tr key=${error}>
      <${Name} href=${error === OTHER_ERRORS ? "" : link("jobs", { error })} name=${error}
        words=${message && message !== error ? `Newest: ${message} · ${tasks.join(", ")}` : tasks.join(", ")} />
      <${Cell} of="Runs">${count(runs)}<//>
      <${Cell} of="Dead now"><${Failed} n=${gone(error)} href=${link("jobs", { state: "dead", error })}
        label=${`${gone(error)} dead with ${error}`} /><//>
    </tr>`)} />`;
}

export function NextTicks({ outlook }) {
  const paused = outlook.paused ? `; ${count(outlook.paused)} paused` : "";
  return html`<${Panel} title="Next ticks" more="Schedules" href="schedules" heads=${["Schedule", "Next"]}
    nothing=${`No schedule is active${paused}. A schedule creates a job at each of its ticks.`}
    rows=${outlook.next.slice(0, listRows()).map((row) => html`<tr key=${row.name}>
      <${Name} href=${scheduleLink(row.name)} name=${row.name}
        words=${row.spec.meaning + (row.spec.task === row.name ? "" : ` · runs ${row.spec.task}`)} />
      <${Cell} of="Next"><${Tick} row=${row} /><//>
    </tr>`)} />`;
}

/** The next tick. One that is just due fires within a moment; a late one is reported as a problem above. */
function Tick({ row }) {
  const now = useNow();
  const at = Date.parse(row.next_run_at);
  const waits = "It fires when the run or schedule it waits for has finished";
  if (row.held_at) return html`<span class="muted" title=${waits}>waiting</span>`;
  if (at <= now && now - at < 60_000) return html`<span title=${localAndUtc(at)}>now</span>`;
  return html`<${Time} at=${row.next_run_at} />`;
}

export function Workers({ workers }) {
  const [busy, slots] = ["running", "concurrency"].map((name) => workers.reduce((sum, one) => sum + one[name], 0));
  const title = workers.length ? `Workers: ${count(busy)} of ${plural(slots, "slot")} busy` : "Workers";
  return html`<${Panel} title=${title} more="Workers" href="workers" heads=${["Worker", "Slots", "Memory", "Heartbeat"]}
    nothing=${html`No worker is running. Start one: <code>mainspring worker MODULE:ATTR</code>`}
    rest=${workers.length - listRows()}
    rows=${workers.slice(0, listRows()).map((one) => html`<tr key=${one.id}>
      <${Name} href=${workerLink(one.id)} name=${one.id}
        words=${one.queues?.join(", ") ?? "all queues"}>
        ${one.shown !== "open" && html`<${WorkerState} of=${one} />`}<//>
      <${Cell} of="Slots"><${Slots} of=${one} /><//>
      <${Cell} of="Memory">${one.memory ? bytes(one.memory) : "–"}<//>
      <${Cell} of="Heartbeat"><${Time} at=${one.beat_at} /><//>
    </tr>`)} />`;
}

const LABELS = { pending: "Pending", running: "Running", retrying: "Retrying" };
const EMPTY_QUEUE = { paused: false, pending: 0, running: 0, retrying: 0 };

export function Queues({ stats, workers }) {
  const known = new Set(stats.queues.map((one) => one.name));
  const idle = Object.keys(stats.by_queue).filter((name) => !known.has(name)).map((name) => ({ ...EMPTY_QUEUE, name }));
  const all = [...stats.queues, ...idle].sort((a, b) => b.pending - a.pending || a.name.localeCompare(b.name));
  const stuck = (name) => workers && blockedReason(queueWorkers(workers, name));
  return html`<${Panel} title="Queues" more="Queues" href="queues"
    heads=${["Queue", ...Object.values(LABELS), "Wait p95"]}
    nothing="No queue holds a job." rest=${all.length - listRows()}
    rows=${all.slice(0, listRows()).map((one) => html`<tr key=${one.name}>
      <${Name} href=${queueLink(one.name)} name=${one.name}>${one.paused && html`<${State} of="paused" />`}
        ${stuck(one.name) && html`<span class="state state-retrying" title=${stuck(one.name)}>
          <${Icon} name="warning" />no worker</span>`}<//>
      ${["pending", "running", "retrying"].map((state) => html`<${Cell} key=${state} of=${LABELS[state]}>
        <${JobsFigure} n=${one[state]} queue=${one.name} state=${state}>${count(one[state])}<//><//>`)}
      <${Cell} of="Wait p95">${duration(stats.by_queue[one.name]?.wait_p95)}<//>
    </tr>`)} />`;
}

export function Tasks({ stats, window }) {
  const [all, show] = useState(false);
  const found = Object.entries(stats.by_task).sort((a, b) => b[1].runs - a[1].runs);
  if (!found.length) return null;
  const failed = (task) => link("jobs", { task, state: ["dead", "retrying"] });
  return html`<div><${Panel} title=${`Tasks in ${windowText(window)}`}
    heads=${["Task", "Runs", "Failed", "Success", "Run p50", "Run p95", "Wait p95", "Last run"]}
    rows=${found.slice(0, all ? found.length : taskRows()).map(([task, one]) => html`<tr key=${task}>
      <${Name} href=${link("jobs", { task })} name=${task} />
      <${Cell} of="Runs">${count(one.runs)}<//>
      <${Cell} of="Failed"><${Failed} n=${one.failed} href=${failed(task)}
        label=${`${one.failed} failed runs of ${task}: see its failed jobs`} /><//>
      <${Cell} of="Success" less>${percent(one.success_rate)}<//>
      <${Cell} of="Run p50" less>${duration(one.p50)}<//>
      <${Cell} of="Run p95">${duration(one.p95)}<//>
      <${Cell} of="Wait p95">${duration(one.wait_p95)}<//>
      <${Cell} of="Last run" less><${Time} at=${one.last_at} /><//>
    </tr>`)} />
    ${found.length > taskRows() && !all && html`
      <p><button onClick=${() => show(true)}>All ${found.length} tasks</button></p>`}</div>`;
}
