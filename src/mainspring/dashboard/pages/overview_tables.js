// The lists of the overview: failures, next ticks, workers, queues and tasks.
import { get } from "../api.js";
import { useNow } from "../clock.js";
import { both, bytes, count, duration, percent, plural } from "../format.js";
import { html, useState } from "../html.js";
import { useData } from "../live.js";
import { Icon } from "../parts/icons.js";
import { queueLink } from "../parts/queue.js";
import { hindrance, service } from "../parts/service.js";
import { State } from "../parts/state.js";
import { Time } from "../parts/time.js";
import { lately } from "../parts/window.js";
import { Slots, workerLink, WorkerState } from "../parts/worker.js";
import { link, scheduleLink } from "../route.js";
import { useSession } from "../session.js";

const SOME = 8;

/** A list with a name, and the way to all of it. */
function Panel({ title, more, href, children }) {
  return html`<section class="overview-panel"><header><h2>${title}</h2>${more && html`<a href=${href}>${more}</a>`}</header>${children}</section>`;
}

const Nothing = ({ children }) => html`<p class="card overview-nothing">${children}</p>`;

export function Failures({ stats, window }) {
  const session = useSession();
  const rows = stats.errors.slice(0, SOME);
  // Groups are counted one dead job after the other: not so often.
  const { value: dead = [] } = useData((signal) => (session.sees("dead") ? get("dead", {}, signal).then((page) => page.items) : []), [rows.length], { every: 15 });
  const gone = (error) => dead.filter((one) => one.error === error).reduce((sum, one) => sum + one.count, 0);
  return html`<${Panel} title="Failures by error" more="Dead letters" href="dead">
    ${rows.length ? html`<div class="table"><table>
      <thead><tr><th scope="col">Error</th><th scope="col" class="number">Runs</th><th scope="col" class="number">Dead now</th></tr></thead>
      <tbody>${rows.map((one) => html`<tr key=${one.error}>
        <td data-label=""><span class="overview-two"><a href=${link("jobs", { error: one.error })}>${one.error}</a><span class="muted">${one.tasks.join(", ")}</span></span></td>
        <td data-label="Runs" class="number">${count(one.count)}</td>
        <td data-label="Dead now" class="number">${gone(one.error) ? html`<a class="state-dead" href=${link("jobs", { state: "dead", error: one.error })} aria-label=${`${gone(one.error)} dead with ${one.error}`}>${count(gone(one.error))}</a>` : html`<span class="muted">0</span>`}</td>
      </tr>`)}</tbody></table></div>`
      : html`<${Nothing}>No run has failed in ${lately(window)}.<//>`}
  <//>`;
}

export function NextTicks({ outlook }) {
  const rows = outlook.next.slice(0, SOME);
  return html`<${Panel} title="Next ticks" more="Schedules" href="schedules">
    ${rows.length ? html`<div class="table"><table>
      <thead><tr><th scope="col">Schedule</th><th scope="col">Task</th><th scope="col" class="number">Next</th></tr></thead>
      <tbody>${rows.map((row) => html`<tr key=${row.name}>
        <td data-label=""><span class="overview-two"><a href=${scheduleLink(row.name)}>${row.name}</a><span class="muted">${row.spec.meaning}</span></span></td>
        <td data-label="Task">${row.spec.task}</td>
        <td data-label="Next" class="number nowrap"><${Tick} row=${row} /></td>
      </tr>`)}</tbody></table></div>`
      : html`<${Nothing}>No schedule is active${outlook.paused ? `; ${count(outlook.paused)} paused` : ""}. A schedule makes a job at each of its ticks.<//>`}
  <//>`;
}

/** A tick whose time has just come is fired within a moment; that it was not is told above. */
function Tick({ row }) {
  const now = useNow();
  const at = Date.parse(row.next_run_at);
  if (row.held_at) return html`<span class="muted" title="It fires when what is in its way has ended">waits</span>`;
  return at <= now && now - at < 60_000 ? html`<span title=${both(at)}>now</span>` : html`<${Time} at=${row.next_run_at} />`;
}

export function Workers({ workers }) {
  const [busy, slots] = ["running", "concurrency"].map((name) => workers.reduce((sum, one) => sum + one[name], 0));
  return html`<${Panel} title=${workers.length ? `Workers: ${count(busy)} of ${plural(slots, "slot")} busy` : "Workers"} more="Workers" href="workers">
    ${workers.length ? html`<div class="table"><table>
      <thead><tr><th scope="col">Worker</th><th scope="col">Slots</th><th scope="col" class="number">Memory</th><th scope="col" class="number">Beat</th></tr></thead>
      <tbody>${workers.slice(0, SOME).map((one) => html`<tr key=${one.id}>
        <td data-label=""><span class="overview-two"><span class="row"><a href=${workerLink(one.id)}>${one.host} ${one.pid}</a>${one.shown !== "open" && html`<${WorkerState} of=${one} />`}</span>
          <span class="muted">${one.queues === null ? "all queues" : one.queues.join(", ")}</span></span></td>
        <td data-label="Slots"><${Slots} of=${one} /></td>
        <td data-label="Memory" class="number nowrap">${one.memory ? bytes(one.memory) : "–"}</td>
        <td data-label="Beat" class="number nowrap"><${Time} at=${one.beat_at} /></td>
      </tr>`)}</tbody></table></div>
      ${workers.length > SOME && html`<p class="muted">and ${workers.length - SOME} more</p>`}`
      : html`<${Nothing}>No worker is alive. Start one: <code>mainspring worker MODULE:ATTR</code><//>`}
  <//>`;
}

export function Queues({ stats, workers }) {
  const known = new Set(stats.queues.map((one) => one.name));
  const idle = Object.keys(stats.by_queue).filter((name) => !known.has(name)).map((name) => ({ name, pending: 0, retrying: 0, running: 0, scheduled: 0 }));
  const rows = [...stats.queues, ...idle].sort((a, b) => b.pending - a.pending || a.name.localeCompare(b.name));
  const stuck = (name) => workers && hindrance(service(workers, name));
  return html`<${Panel} title="Queues" more="Queues" href="queues">
    ${rows.length ? html`<div class="table"><table>
      <thead><tr><th scope="col">Queue</th><th scope="col" class="number">Due</th><th scope="col" class="number">Running</th><th scope="col" class="number">Retrying</th><th scope="col" class="number">Wait p95</th></tr></thead>
      <tbody>${rows.slice(0, SOME).map((one) => html`<tr key=${one.name}>
        <td data-label=""><span class="row"><a href=${queueLink(one.name)}>${one.name}</a>
          ${one.paused && html`<${State} of="paused" />`}${stuck(one.name) && html`<span class="state state-retrying" title=${stuck(one.name)}><${Icon} name="warning" />no worker</span>`}</span></td>
        <td data-label="Due" class="number">${count(one.pending)}</td>
        <td data-label="Running" class="number">${count(one.running)}</td>
        <td data-label="Retrying" class="number">${count(one.retrying)}</td>
        <td data-label="Wait p95" class="number nowrap">${duration(stats.by_queue[one.name]?.wait_p95)}</td>
      </tr>`)}</tbody></table></div>
      ${rows.length > SOME && html`<p class="muted">and ${rows.length - SOME} more</p>`}`
      : html`<${Nothing}>No queue holds a job.<//>`}
  <//>`;
}

export function Tasks({ stats, window }) {
  const [all, show] = useState(false);
  const rows = Object.entries(stats.by_task).sort((a, b) => b[1].runs - a[1].runs);
  if (!rows.length) return null;
  const shown = all ? rows : rows.slice(0, 12);
  return html`<${Panel} title=${`Tasks in ${lately(window)}`}>
    <div class="table"><table>
      <thead><tr><th scope="col">Task</th><th scope="col" class="number">Runs</th><th scope="col" class="number">Failed</th><th scope="col" class="number">Success</th>
        <th scope="col" class="number">Run p50</th><th scope="col" class="number">Run p95</th><th scope="col" class="number">Wait p95</th><th scope="col" class="number">Last run</th></tr></thead>
      <tbody>${shown.map(([task, one]) => html`<tr key=${task}>
        <td data-label=""><a href=${link("jobs", { task })}>${task}</a></td>
        <td data-label="Runs" class="number">${count(one.runs)}</td>
        <td data-label="Failed" class="number">${one.failed ? html`<a class="state-dead" href=${link("jobs", { task, state: ["dead", "retrying"] })} aria-label=${`${one.failed} failed runs of ${task}: see its failed jobs`}>${count(one.failed)}</a>` : html`<span class="muted">0</span>`}</td>
        <td data-label="Success" class="number nowrap overview-less">${percent(one.success_rate)}</td>
        <td data-label="Run p50" class="number nowrap overview-less">${duration(one.p50)}</td>
        <td data-label="Run p95" class="number nowrap">${duration(one.p95)}</td>
        <td data-label="Wait p95" class="number nowrap">${duration(one.wait_p95)}</td>
        <td data-label="Last run" class="number nowrap overview-less"><${Time} at=${one.last_at} /></td>
      </tr>`)}</tbody></table></div>
    ${rows.length > shown.length && html`<p><button onClick=${() => show(true)}>All ${rows.length} tasks</button></p>`}
  <//>`;
}
