// /jobs: the list of jobs, with filters, and actions on one or many of them.
import { get } from "../api.js";
import { now } from "../clock.js";
import { plural } from "../format.js";
import { useAim, useHeld } from "../held.js";
import { html, useMemo, useState } from "../html.js";
import { bodyOf, filterOf, inWords, isEmpty } from "../job_filter.js";
import { useData } from "../live.js";
import { BulkBar } from "../parts/bulk.js";
import { EnqueueDialog } from "../parts/enqueue.js";
import { Icon } from "../parts/icons.js";
import { JOBS } from "../parts/job_bulk.js";
import { Chips, JobSearch, MoreFilters } from "../parts/job_search.js";
import { JobTable } from "../parts/job_table.js";
import { LoadMore, useShown } from "../parts/more.js";
import { Empty, Head, Loaded, Pager } from "../parts/page.js";
import { StateTabs } from "../parts/state_tabs.js";
import { go, link, useRoute } from "../route.js";
import { useSelection } from "../selection.js";
import { useSession } from "../session.js";

/** value in the field: the API's sort and order, and the label. Without one, finished jobs are sorted by when they
 * finished, unless the filter is about when they were created. */
const SORTS = {
  "created.desc": ["created", "desc", "newest first"], "created.asc": ["created", "asc", "oldest first"],
  "due.asc": ["due", "asc", "due soonest"], "due.desc": ["due", "desc", "due last"],
  "finished.desc": ["finished", "desc", "finished last"], "finished.asc": ["finished", "asc", "finished first"],
};
const AT_REST = ["completed", "dead", "cancelled"];
// Log lines change nothing in a list.
const TYPES = [
  "job.enqueued", "job.started", "job.completed", "job.retrying", "job.dead", "job.cancelled", "job.snoozed",
  "job.released", "job.expired", "job.lost", "job.changed", "job.progress", "job.pruned",
];
const FIRST = `@app.task
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
  const known = useKnown();
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

/** One page of jobs, with the address it is of. Also now and then: that a job's time has come is no event. */
function useList(name, { state, task, queue, schedule, ...rest }) {
  const wanted = { state, task, queue, schedule, ...rest, limit: 50, arguments: true };
  const load = async (signal) => ({ name, ...(await get("jobs", wanted, signal)) });
  return useData(load, [name], { live: { type: TYPES, task, queue, schedule }, every: 15 });
}

/** By state, of the jobs that a filter without states means; null while those of another filter are loaded. */
function useCounts(filter) {
  const name = JSON.stringify(filter);
  const load = async (signal) => ({ name, counts: await get("jobs/counts", filter, signal) });
  const { value } = useData(load, [name], { every: isEmpty(filter) ? 5 : 15 });
  return value?.name === name ? value.counts : null;
}

/** Names to offer where one types, and which queues are paused. */
function useKnown() {
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
  const ended = filter.state?.every((state) => AT_REST.includes(state));
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
  // New jobs that come while one thinks are not meant.
  const until = (at) => bodyOf({ ...filter, created_before: filter.created_before ?? at });
  const choice = useSelection(name, { noun: "job", inWords: inWords(filter), filter: until });
  const { aiming, ref } = useAim();
  const [shown, showMore] = useShown(name);
  const { items, gone, fresh, release } = useHeld(value.name, value.items, value.next !== null, choice.any || aiming);
  const stale = value.name !== name;
  const rows = items.slice(0, shown);
  if (!items.length && !stale) {
    return html`<${Nothing} filter=${filter} first=${first} onClear=${onClear} onAsk=${acts && onAsk} />`;
  }
  return html`
    <div class="list-line" aria-live="polite">
      ${acts && html`<label class="select-page"><input type="checkbox"
        checked=${rows.every((job) => choice.shown(rows).has(job.id))}
        onChange=${(event) => choice.page(rows, event.target.checked)} /> Select page</label>`}
      <span class="muted">${plural(rows.length, "job")}${value.next || !first ? " on this page" : ""}</span>
      ${fresh > 0 && html`<button class="fresh" onClick=${release}><${Icon} name="retrying" size=${14} />
        ${fresh >= 50 ? "50 or more new jobs" : plural(fresh, "new job")}</button>`}
    </div>
    <div ref=${ref} class=${stale ? "stale" : ""}>
      <${JobTable} jobs=${rows} gone=${gone} paused=${paused} busy=${stale}
        selected=${choice.shown(rows)} onDone=${list.reload}
        onSelect=${acts && ((job, event) => choice.toggle(rows, job, event.shiftKey))}
        onSelectAll=${(all) => choice.page(rows, all)} />
    </div>
    ${items.length > shown
      ? html`<${LoadMore} onMore=${showMore} />`
      : html`<${Pager} next=${value.next} />`}
    ${choice.any && html`<${BulkBar} kind=${JOBS} words=${choice.words} what=${choice.what} choice=${choice.meant}
      onClear=${choice.clear} allows=${choice.allows(rows)}
      onDone=${list.reload}>${!choice.all && value.next !== null && html`
        <button class="quiet link" onClick=${() => choice.everything(new Date(now()).toISOString())}>
          ${isEmpty(filter) ? "Select all jobs" : "Select all that match this filter"}</button>`}
    <//>`}`;
}

function Nothing({ filter, first, onClear, onAsk }) {
  if (!isEmpty(filter) || !first) {
    return html`<${Empty} title=${first ? "No job matches this filter" : "There are no more jobs"}>
      <button onClick=${onClear}>${first ? "Clear filters" : "First page"}</button><//>`;
  }
  return html`<${Empty} title="No jobs yet" code=${FIRST}>
    <p>A job is one call of a task. Your program enqueues it, and a worker runs it:</p>
    ${onAsk && html`<button onClick=${onAsk}><${Icon} name="plus" />Enqueue a job</button>`}<//>`;
}
