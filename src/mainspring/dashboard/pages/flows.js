// /flows: the list of flows, and how far each one is.
import { get } from "../api.js";
import { count, plural } from "../format.js";
import { html } from "../html.js";
import { useData } from "../live.js";
import { Columns } from "../parts/columns.js";
import { Icon } from "../parts/icons.js";
import { Meter } from "../parts/meter.js";
import { Empty, Head, Loaded, Pager } from "../parts/page.js";
import { RowActions } from "../parts/row_actions.js";
import { State } from "../parts/state.js";
import { StateTabs } from "../parts/state_tabs.js";
import { Span, Time } from "../parts/time.js";
import { flowLink, go, link, scheduleLink, useRoute } from "../route.js";
import { useSession } from "../session.js";

// Of the flows' own jobs. How far they are is asked for: events of all their steps would cost more.
const TYPES = [
  "job.enqueued", "job.suspended", "job.completed", "job.dead", "job.cancelled", "job.expired", "job.changed",
];
const RELOAD_SECONDS = 2;
// The tasks of flows without a function, and of batches.
const PLANNED = "mainspring.flow", BATCH = "mainspring.batch";
const NAMES = { [PLANNED]: "without a function", [BATCH]: "batches" };
const COLUMNS = ["State", "Flow", "Progress", "Created", "#Took", "Details", ""];
const EXAMPLE = `@app.flow
def fulfil(order: int) -> str:
    txn = charge.step(order)
    return ship.step(order, txn)

await fulfil.enqueue(7)`;

export function Flows() {
  const { query } = useRoute();
  const name = query.toString();
  const states = query.getAll("state"), task = query.get("task") ?? "", after = query.get("after");
  const tasks = useFlowTasks();
  const wanted = { state: states, task, after, limit: 50 };
  const list = useData((signal) => get("flows", wanted, signal), [name], {
    live: tasks && { type: TYPES, task: tasks }, every: RELOAD_SECONDS,
  });
  const counts = useCounts(task ? [task] : tasks);
  const choose = (event) => go(link("flows", { state: states, task: event.target.value }));
  return html`
    <${Head} title="Flows" actions=${html`<label class="sort"><span>Flow</span>
      <select value=${task} onInput=${choose}><option value="">all</option>
        ${[...new Set([...(tasks ?? []), ...(task ? [task] : [])])].map((one) => html`<option key=${one} value=${one}
          selected=${one === task}>${NAMES[one] ?? one}</option>`)}</select></label>`} />
    <${StateTabs} chosen=${states} counts=${counts} to=${(state) => link("flows", { state, task })} />
    <${Loaded} data=${list}>${({ items, next }) => (items.length
      ? html`<${FlowTable} flows=${items} onDone=${list.reload} /><${Pager} next=${next} />`
      : html`<${Nothing} first=${!name} />`)}<//>`;
}

/** The names of the tasks that are flows; null while they load. */
function useFlowTasks() {
  const { value } = useData(async (signal) => {
    const { items } = await get("tasks", {}, signal);
    return [...items.filter((task) => task.flow).map((task) => task.name), PLANNED, BATCH];
  }, []);
  return value ?? null;
}

/** The number of flows by state; null while they load. */
function useCounts(tasks) {
  const name = tasks?.join() ?? "";
  const load = async (signal) => ({ name, counts: tasks && await get("jobs/counts", { task: tasks }, signal) });
  const { value } = useData(load, [name], { every: 5 });
  return value?.name === name ? value.counts : null;
}

function FlowTable({ flows, onDone }) {
  const acts = useSession().may("operator", "jobs");
  return html`<div class="table flows-table"><table><caption class="unseen">Flows</caption>
    <${Columns} of=${acts ? COLUMNS : COLUMNS.slice(0, -1)} />
    <tbody>${flows.map((job) => html`<${Row} key=${job.id} job=${job} acts=${acts} onDone=${onDone} />`)}</tbody>
  </table></div>`;
}

function Row({ job, acts, onDone }) {
  return html`<tr>
    <td data-label="State" class="tight"><${State} of=${job.outcome ?? job.shown} />
      ${!job.finished_at && job.cancel_reason !== null && html`<div class="muted small">is stopping</div>`}</td>
    <td data-label="" class="name"><div><a class="job-task" href=${flowLink(job.id)}>${job.name ?? job.task}</a>${" "}
      ${job.task === BATCH && html`<span class="tag">batch</span>`}
      <code class="muted small nowrap">${job.id.slice(0, 18)}</code>
      ${(job.schedule || job.tags.length > 0) && html`<div class="small row">
        ${job.schedule && html`<a class="plain muted" href=${scheduleLink(job.schedule)}>
          <${Icon} name="calendar" size=${13} /> ${job.schedule}</a>`}
        ${job.tags.map((tag) => html`<a class="tag" key=${tag} href=${link("jobs", { tag })}>${tag}</a>`)}</div>`}
      </div></td>
    <td data-label="Progress"><${Progress} job=${job} /></td>
    <td data-label="Created" class="nowrap"><${Time} at=${job.created_at} /></td>
    <td data-label="Took" class="number">${job.flow
      ? html`<${Span} from=${job.created_at} until=${job.finished_at} />`
      : html`<span class="muted">–</span>`}</td>
    <td data-label="Details"><div>${job.message && job.shown !== "completed"
      && html`<span class="job-error" title=${job.message}>${job.message}</span>`}
      ${job.cancel_reason && html`<div class="small muted">${job.cancel_reason}</div>`}</div></td>
    ${acts && html`<td data-label="" class="tight"><${RowActions} job=${job} only=${["retry", "cancel"]}
      onDone=${onDone} /></td>`}
  </tr>`;
}

/** Ended steps of all, and the items of maps. */
function Progress({ job: { flow, shown } }) {
  if (!flow) return html`<span class="muted">${shown === "pending" ? "not planned yet" : "–"}</span>`;
  const { steps, done, dead, items } = flow;
  const more = [
    dead > 0 && html`<span class="bad">${plural(dead, "dead step")}</span>`,
    items && items.ended < items.made && `${count(items.ended)} of ${count(items.made)} items`,
  ].filter(Boolean);
  return html`<div class=${`flows-${shown}`}>
    <${Meter} value=${done} most=${steps} label="Ended steps" words=${`${done} of ${steps}`} />
    ${more.length > 0 && html`<div class="small muted">${more.map((one, n) => html`${n > 0 && " · "}${one}`)}</div>`}
  </div>`;
}

function Nothing({ first }) {
  if (!first) {
    return html`<${Empty} title="No flow matches this filter"><a class="button" href="flows">All flows</a><//>`;
  }
  return html`<${Empty} title="No flows yet" code=${EXAMPLE}>
    <p>A flow is a task whose work is done by other jobs, its steps:</p><//>`;
}
