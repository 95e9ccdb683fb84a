// /schedules: the list of schedules with their last ticks, and the load of the coming week.
import { get, post, segment } from "../api.js";
import { plural } from "../format.js";
import { html, useState } from "../html.js";
import { useData } from "../live.js";
import { ActionButton } from "../parts/action_button.js";
import { BulkBar } from "../parts/bulk.js";
import { HeatMap } from "../parts/heat_map.js";
import { Icon } from "../parts/icons.js";
import { LoadMore, useRowLimit } from "../parts/load_more.js";
import { Empty, Head, Loaded, Pager } from "../parts/page.js";
import { Rebalance } from "../parts/rebalance.js";
import { Pause, Resume } from "../parts/schedule_actions.js";
import { allowedOn, describeFilter, SCHEDULES } from "../parts/schedule_bulk.js";
import { ScheduleForm } from "../parts/schedule_form.js";
import { NextTick } from "../parts/schedule_words.js";
import { State } from "../parts/state.js";
import { TickStrip, TickLegend } from "../parts/ticks.js";
import { Time } from "../parts/time.js";
import { go, jobLink, link, scheduleLink, useRoute } from "../route.js";
import { useSelection } from "../selection.js";
import { useSession } from "../session.js";

const FILTERS = ["q", "status", "task", "owner"];
const PAGE = 50;
const MAX_REQUESTS = 10; // for one page: with very many schedules, the API returns a filtered page in parts

export function Schedules() {
  const { query } = useRoute();
  const session = useSession();
  const filters = Object.fromEntries([...FILTERS, "after"].map((name) => [name, query.get(name) ?? ""]));
  const rows = useData(
    (signal) => loadPage(filters, signal), [query.toString()], { live: { type: ["schedule"] }, every: 10 },
  );
  const tasks = useData((signal) => get("tasks", {}, signal), []);
  const [open, show] = useState(null);
  const operator = session.may("operator", "schedules");
  const close = () => show(null);
  const actions = operator && html`<button class="primary" onClick=${() => show({ kind: "new" })}>
    <${Icon} name="plus" /> New schedule</button>`;
  const filter = Object.fromEntries(FILTERS.filter((name) => filters[name]).map((name) => [name, filters[name]]));
  const filtered = Object.keys(filter).length > 0;
  const [shown, showMore] = useRowLimit(query.toString());
  const choice = useSelection(query.toString(), {
    noun: "schedule", inWords: describeFilter(filter), filter: () => filter,
  });
  return html`<${Head} title="Schedules" actions=${actions} />
    <div class="stack">
      <section><${Filters} filters=${filters} tasks=${tasks.value?.items ?? []} />
        <${Loaded} data=${rows}>${({ items, next }) => (items.length
          ? html`<${List} items=${items.slice(0, shown)} act=${operator && show} choice=${choice} /><${TickLegend} />
            ${items.length > shown ? html`<${LoadMore} onMore=${showMore} />` : html`<${Pager} next=${next}
              words=${`${plural(items.length, "schedule")}${next || filters.after ? " on this page" : ""}`} />`}`
          : html`<${Nothing} filtered=${filtered} />
            ${next && html`<${Pager} next=${next} words="none yet" />`}`)}<//>
        ${choice.any && html`<${BulkBar} kind=${SCHEDULES} words=${choice.words} what=${choice.what}
          choice=${choice.choice} allows=${choice.allows(selectable(rows.value?.items ?? []))}
          onClear=${choice.clear} onDone=${rows.reload}>${!choice.all && (rows.value?.next || filters.after) && html`
            <button class="quiet link" onClick=${() => choice.everything(true)}>
              ${filtered ? "Select all that match this filter" : "Select all schedules"}</button>`}
        <//>`}
      </section>
      <${Week} operator=${operator} />
    </div>
    ${open?.kind === "new" && html`<${ScheduleForm} tasks=${tasks.value?.items ?? []} onClose=${close}
      onDone=${(row) => go(scheduleLink(row.name))} />`}
    ${open?.kind === "pause" && html`<${Pause} row=${open.row} onClose=${close} onDone=${rows.reload} />`}
    ${open?.kind === "resume" && html`<${Resume} row=${open.row} onClose=${close} onDone=${rows.reload} />`}`;
}

/** Loads a page of schedules, with filters possibly in several requests. */
async function loadPage(filters, signal) {
  const items = [];
  let after = filters.after, requests = 0;
  do {
    const page = await get("schedules", { ...filters, after, limit: PAGE }, signal);
    items.push(...page.items);
    after = page.next;
    requests += 1;
  } while (after && items.length < PAGE && requests < MAX_REQUESTS);
  return { items, next: after };
}

function Filters({ filters, tasks }) {
  const set = (change) => go(link("schedules", { ...filters, after: "", ...change }), { replace: true });
  const choice = (name, label, options) => html`<select aria-label=${label} value=${filters[name]}
    onChange=${(event) => set({ [name]: event.target.value })}>
    ${options.map(([value, words]) => html`<option key=${value} value=${value}>${words}</option>`)}</select>`;
  return html`<form class="row schedule-filters" role="search" onSubmit=${(event) => event.preventDefault()}>
    <input id="search" type="search" aria-label="Search schedules by name" placeholder="Search by name"
      value=${filters.q} onInput=${(event) => set({ q: event.target.value })} />
    ${choice("status", "Status", [["", "any status"], ["active", "active"], ["paused", "paused"], ["ended", "ended"]])}
    ${choice("owner", "Owner", [["", "any owner"], ["code", "declared in code"], ["user", "created by users"]])}
    <input list="schedule-tasks" aria-label="Task" placeholder="any task" value=${filters.task}
      onChange=${(event) => set({ task: event.target.value.trim() })} />
    <datalist id="schedule-tasks">
      ${tasks.map((task) => html`<option key=${task.name} value=${task.name} />`)}</datalist>
    ${FILTERS.some((name) => filters[name]) && html`<button type="button" class="quiet"
      onClick=${() => go("schedules", { replace: true })}><${Icon} name="close" /> Clear</button>`}
  </form>`;
}

/** The rows for useSelection(). */
const selectable = (items) => items.map((row) => ({ id: row.name, can: allowedOn(row) }));

function List({ items, act, choice }) {
  const rows = selectable(items);
  const selected = choice.shown(rows);
  const all = rows.every((row) => selected.has(row.id));
  const some = !all && rows.some((row) => selected.has(row.id));
  const pick = act && ((n) => (event) => choice.toggle(rows, rows[n], event.shiftKey));
  return html`
    ${act && html`<label class="select-page"><input type="checkbox" checked=${all} indeterminate=${some}
      onChange=${() => choice.page(rows, !all)} /> Select page</label>`}
    <div class="table schedules"><table>
    <thead><tr>
      ${act && html`<th scope="col" class="tight"><input type="checkbox" aria-label="Select all on this page"
        checked=${all} indeterminate=${some} onChange=${() => choice.page(rows, !all)} /></th>`}
      <th scope="col">Schedule</th><th scope="col">Status</th><th scope="col">Next tick</th>
      <th scope="col">Last run</th><th scope="col">Last ticks</th>
      ${act && html`<th scope="col"><span class="unseen">Actions</span></th>`}</tr></thead>
    <tbody>${items.map((row, n) => html`<${Row} key=${row.name} row=${row} act=${act} selected=${selected.has(row.name)}
      onSelect=${pick && pick(n)} />`)}</tbody>
  </table></div>`;
}

function Row({ row, act, selected, onSelect }) {
  return html`<tr class=${selected ? "selected" : ""}>
    ${onSelect && html`<td data-label="Select" class="tight schedule-select"><input type="checkbox"
      checked=${selected} aria-label=${`Select ${row.name}`} onClick=${onSelect} /></td>`}
    <td data-label="" class="name schedule-name"><div><a href=${scheduleLink(row.name)}><b>${row.name}</b></a>
      ${row.owner === "code" && html` <span class="tag" title="declared in code">code</span>`}
      <div>${row.spec.meaning}
        ${row.spec.task !== row.name && html`<span class="muted"> · runs ${row.spec.task}</span>`}</div>
      ${row.status === "paused" && row.note && html`<div class="muted">Paused: ${row.note}</div>`}
      ${row.warnings.map((words) => html`<div key=${words} class="schedule-warning">
        <${Icon} name="warning" size=${13} /> ${words}</div>`)}</div></td>
    <td data-label="Status" class="tight"><${State} of=${row.status} /></td>
    <td data-label="Next tick" class="schedule-next tight"><div><${NextTick} row=${row} /></div></td>
    <td data-label="Last run" class="tight"><${LastRun} row=${row} /></td>
    <td data-label="Last ticks" class="tight">
      <${TickStrip} name=${row.name} version=${`${row.ticks} ${row.last_finished_at} ${row.active.length}`} /></td>
    ${act && html`<td data-label="" class="tight"><span class="row schedule-row-actions">
      <${ActionButton} icon="play" kind="quiet" label=${`Run ${row.name} now`} run=${() => runNow(row.name)} />
      ${row.status === "paused"
        ? html`<button class="quiet" aria-label=${`Resume ${row.name}`} title="Resume"
            onClick=${() => act({ kind: "resume", row })}><${Icon} name="retrying" /></button>`
        : row.status === "active" && html`<button class="quiet" aria-label=${`Pause ${row.name}`} title="Pause"
            onClick=${() => act({ kind: "pause", row })}><${Icon} name="pause" /></button>`}
    </span></td>`}
  </tr>`;
}

async function runNow(name) {
  await post(`schedules/${segment(name)}/trigger`);
  return `Enqueued ${name}; its next tick stays.`;
}

function LastRun({ row }) {
  if (!row.last_job_id) return html`<span class="muted">never</span>`;
  const when = row.last_run_at ?? row.last_finished_at;
  const state = row.last_outcome && !row.active.includes(row.last_job_id) ? row.last_outcome : "running";
  return html`<a class="schedule-last" href=${jobLink(row.last_job_id)}>
    <${State} of=${state} word=${state === "running" ? "in progress" : state} />${" "}
    ${when && html`<${Time} at=${when} />`}</a>`;
}

function Nothing({ filtered }) {
  if (filtered) return html`<${Empty} title="No schedule matches this filter">Change the filters, or clear them.<//>`;
  return html`<${Empty} title="No schedules yet" code=${EXAMPLE}>
    A schedule creates a job at each of its ticks. Declare one in code, or create one here:<//>`;
}

const EXAMPLE = `@app.cron("0 9 * * mon-fri", tz="Europe/London")
async def report() -> None: ...

@app.every(minutes=5)
async def healthcheck() -> None: ...`;

function Week({ operator }) {
  const load = useData((signal) => get("scheduler/distribution", { days: 7 }, signal), [], { every: 300 });
  const [open, show] = useState(false);
  if (load.value && !load.value.schedules) return null;
  return html`<section class="card"><div class="row week-head"><h2>The coming week</h2>
      ${operator && html`<button onClick=${() => show(true)}>Rebalance…</button>`}</div>
    <${Loaded} data=${load}>${(value) => html`<${HeatMap} load=${value} />`}<//>
    ${open && html`<${Rebalance} onClose=${() => show(false)} onDone=${load.reload} />`}</section>`;
}
