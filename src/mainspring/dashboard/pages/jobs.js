// /jobs: the list of jobs, with filters, and actions on one or many of them.
import { get } from "../api.js";
import { now } from "../clock.js";
import { plural } from "../format.js";
import { useHover, useStableRows } from "../stable_rows.js";
import { html, useMemo, useState } from "../html.js";
import { bodyOf, filterOf, describeFilter, isEmpty } from "../job_filter.js";
import { useData } from "../live.js";
import { BulkBar } from "../parts/bulk.js";
import { EnqueueDialog } from "../parts/enqueue.js";
import { Icon } from "../parts/icons.js";
import { JOBS } from "../parts/job_bulk.js";
import { Chips, JobSearch, MoreFilters } from "../parts/job_search.js";
import { JobTable } from "../parts/job_table.js";
import { LoadMore, useRowLimit } from "../parts/load_more.js";
import { Empty, Head, Loaded, Pager } from "../parts/page.js";
import { StateTabs } from "../parts/state_tabs.js";
import { go, link, useRoute } from "../route.js";
import { useSelection } from "../selection.js";
import { useSession } from "../session.js";

/** value of the field: [sort, order, label]. By default finished jobs are sorted by the time they finished, unless the
 * filter restricts their creation time. */
const SORTS = {
  "created.desc": ["created", "desc", "newest first"], "created.asc": ["created", "asc", "oldest first"],
  "due.asc": ["due", "asc", "due soonest"], "due.desc": ["due", "desc", "due last"],
  "finished.desc": ["finished", "desc", "finished last"], "finished.asc": ["finished", "asc", "finished first"],
};
const FINISHED = ["completed", "dead", "cancelled"];
// Log lines change nothing in a list.
const TYPES = [
  "job.enqueued", "job.started", "job.completed", "job.retrying", "job.dead", "job.cancelled", "job.snoozed",
  "job.released", "job.suspended", "job.expired", "job.lost", "job.changed", "job.progress", "job.pruned",
];
const EXAMPLE = `@app.task
async def greet(name: str) -> None:
    print(f"Hello, {name}")

await greet.enqueue("Ada")`;

export function Jobs() {
  const session = useSession();
  const { query } = useRoute();
  const text = query.toString();
  const { filter, sort, order, after } = useMemo(() => ({
    filter: filterOf(query),
    sort: query.get("sort") ?? "", order: query.get("order") ?? "", after: query.get("after") ?? "",
  }), [text]);
  const [asking, ask] = useState(false);
  const known = useNames();
  const list = useList(text, { ...filter, sort, order, after });
  const { state: states, ...others } = filter;
  const counts = useCounts(others);
  const show = (wanted) => go(link("jobs", { ...wanted, sort, order }));
  return html`
    <${Head} title="Jobs" actions=${session.may("operator", "jobs") && html`
      <button class="primary" onClick=${() => ask(true)}><${Icon} name="plus" />Enqueue a job</button>`} />
    <${StateTabs} chosen=${states} counts=${counts}
      to=${(state) => link("jobs", { ...others, state, sort, order })} />
    <div class="job-find">
      <${JobSearch} filter=${filter} known=${known} onFilter=${show} />
      <${SortField} filter=${filter} sort=${sort} order=${order}
        onSort=${(sort, order) => go(link("jobs", { ...filter, sort, order }), { replace: true })} />
      <${MoreFilters} filter=${filter} known=${known} onFilter=${show} />
    </div>
    <${Chips} filter=${filter} onFilter=${show} />
    <${Loaded} data=${list}>${(value) => html`
      <${List} value=${value} name=${text} list=${list} filter=${filter} first=${!after} paused=${known.paused}
        onClear=${() => go("jobs")} onAsk=${() => ask(true)} />`}<//>
    ${asking && html`<${EnqueueDialog} onClose=${() => ask(false)} />`}`;
}

/** One page of jobs, with its query as `name`. Reloaded periodically, too: there is no event when a job becomes due. */
function useList(name, { state, task, queue, schedule, ...rest }) {
  const wanted = { state, task, queue, schedule, ...rest, limit: 50, arguments: true };
  const load = async (signal) => ({ name, ...(await get("jobs", wanted, signal)) });
  return useData(load, [name], { live: { type: TYPES, task, queue, schedule }, every: 15 });
}

/** The numbers of jobs by state for a filter without states. null while they load. */
function useCounts(filter) {
  const name = JSON.stringify(filter);
  const load = async (signal) => ({ name, counts: await get("jobs/counts", filter, signal) });
  const { value } = useData(load, [name], { every: isEmpty(filter) ? 5 : 15 });
  return value?.name === name ? value.counts : null;
}

/** The names of tasks and queues to suggest, and the paused queues. */
function useNames() {
  const tasks = useData((signal) => get("tasks", {}, signal), []);
  const queues = useData((signal) => get("queues", {}, signal), [], { every: 10 });
  return useMemo(() => {
    const names = tasks.value?.items ?? [];
    const own = names.map((task) => task.queue);
    return {
      tasks: names.map((task) => task.name),
      queues: [...new Set([...own, ...(queues.value?.items ?? []).map((queue) => queue.name)])].sort(),
      paused: new Set((queues.value?.items ?? []).filter((queue) => queue.paused).map((queue) => queue.name)),
    };
  }, [tasks.value, queues.value]);
}

function SortField({ filter, sort, order, onSort }) {
  const ended = filter.state?.every((state) => FINISHED.includes(state));
  const usual = ended && !filter.created_after && !filter.created_before ? "finished" : "created";
  const by = sort || usual;
  const chosen = `${by}.${order || (by === "due" ? "asc" : "desc")}`;
  return html`<label class="sort"><span>Sort</span>
    <select value=${chosen} onInput=${(event) => onSort(...SORTS[event.target.value])}>
      ${Object.entries(SORTS).map(([name, [, , words]]) => html`<option key=${name} value=${name}>${words}</option>`)}
    </select></label>`;
}

function List({ value, name, list, filter, first, paused, onClear, onAsk }) {
  const acts = useSession().may("operator", "jobs");
  // Jobs that are created after the selection are not included.
  const until = (at) => bodyOf({ ...filter, created_before: filter.created_before ?? at });
  const selection = useSelection(name, { noun: "job", inWords: describeFilter(filter), filter: until });
  const { hovering, ref } = useHover();
  const [shown, showMore] = useRowLimit(name);
  const { items, gone, added, showNew } = useStableRows(
    value.name, value.items, value.next !== null, selection.any || hovering,
  );
  const stale = value.name !== name;
  const rows = items.slice(0, shown);
  if (!items.length && !stale) {
    return html`<${Nothing} filter=${filter} first=${first} onClear=${onClear} onAsk=${acts && onAsk} />`;
  }
  return html`
    <div class="list-line" aria-live="polite">
      ${acts && html`<label class="select-page"><input type="checkbox"
        checked=${rows.every((job) => selection.shown(rows).has(job.id))}
        onChange=${(event) => selection.page(rows, event.target.checked)} /> Select page</label>`}
      <span class="muted">${plural(rows.length, "job")}${value.next || !first ? " on this page" : ""}</span>
      ${added > 0 && html`<button class="fresh" onClick=${showNew}><${Icon} name="retrying" size=${14} />
        ${added >= 50 ? "50 or more new jobs" : plural(added, "new job")}</button>`}
    </div>
    <div ref=${ref} class=${stale ? "stale" : ""}>
      <${JobTable} jobs=${rows} gone=${gone} paused=${paused} busy=${stale}
        selected=${selection.shown(rows)} onDone=${list.reload}
        onSelect=${acts && ((job, event) => selection.toggle(rows, job, event.shiftKey))}
        onSelectAll=${(all) => selection.page(rows, all)} />
    </div>
    ${items.length > shown
      ? html`<${LoadMore} onMore=${showMore} />`
      : html`<${Pager} next=${value.next} />`}
    ${selection.any && html`<${BulkBar} kind=${JOBS} words=${selection.words} what=${selection.what}
      choice=${selection.choice} onClear=${selection.clear} allows=${selection.allows(rows)}
      onDone=${list.reload}>${!selection.all && value.next !== null && html`
        <button class="quiet link" onClick=${() => selection.everything(new Date(now()).toISOString())}>
          ${isEmpty(filter) ? "Select all jobs" : "Select all that match this filter"}</button>`}
    <//>`}`;
}

function Nothing({ filter, first, onClear, onAsk }) {
  if (!isEmpty(filter) || !first) {
    return html`<${Empty} title=${first ? "No job matches this filter" : "There are no more jobs"}>
      <button onClick=${onClear}>${first ? "Clear filters" : "First page"}</button><//>`;
  }
  return html`<${Empty} title="No jobs yet" code=${EXAMPLE}>
    <p>A job is one call of a task. Your program enqueues it, and a worker runs it:</p>
    ${onAsk && html`<button onClick=${onAsk}><${Icon} name="plus" />Enqueue a job</button>`}<//>`;
}
