// Ticks of a schedule: their outcomes with colour, shape and text, and the strip of the last ones.
import { get, segment } from "../api.js";
import { local, plural } from "../format.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { jobLink } from "../route.js";

const REASONS = {
  overlap: "the previous run had not finished", dependency: "its dependencies had not succeeded",
  window: "outside its window", excluded: "on an excluded date", paused: "the schedule was paused",
  changed: "the schedule was changed", made_already: "its job existed already",
  catch_up: "no worker was running in time", too_old: "no worker was running, and it was too old to catch up",
  by_hand: "run by hand", backfill: "backfilled",
};

/** The reason of a tick in words: why it did not fire, or that it was fired by hand. */
export const reasonWords = (reason) => REASONS[reason] ?? reason;

/** The displayed state of a tick: the outcome or state of its job if known, else the tick's own outcome. */
export const tickState = (tick, job) => (tick.what === "fired" ? job?.outcome ?? job?.shown ?? "fired" : tick.what);

/** A tick in one line. */
function tickTitle(tick, job) {
  const when = local(tick.at) + (tick.last_at ? ` to ${local(tick.last_at)}, ${plural(tick.count, "tick")}` : "");
  const made = job ? `job ${tickState(tick, job)}` : "job created, no longer kept";
  const end = tick.what === "fired" ? made : tick.what;
  return `${when}: ${end}${tick.reason ? ` (${reasonWords(tick.reason)})` : ""}`;
}

/** Loads { ticks, jobs }: the newest ticks before number `before`, and those of their jobs that still exist, by id. */
export async function loadTicks(name, { limit, before }, signal) {
  const ticks = await get(`schedules/${segment(name)}/ticks`, { limit, before }, signal);
  const fired = ticks.filter((tick) => tick.job_id);
  const some = { schedule: name, limit: Math.min(200, 2 * limit) };
  const found = fired.length ? (await get("jobs", { ...some, ...createdRange(fired) }, signal)).items : [];
  return { ticks, jobs: new Map(found.map((job) => [job.id, job])) };
}

/** The range in which the ticks' jobs were created: when the ticks were processed, with a margin for clock skew. */
function createdRange(ticks) {
  const at = ticks.map((tick) => Date.parse(tick.seen_at));
  const text = (ms) => new Date(ms).toISOString();
  return { created_after: text(Math.min(...at) - 2000), created_before: text(Math.max(...at) + 2000) };
}

const STRIP_TICKS = 20;
const MAX_REQUESTS = 3; // at once: a browser has six connections per host, and the feed uses one
const MIN_RELOAD_MS = 3000; // between two loads of one strip
const waiting = [];
let busy = 0;

/** Runs `load` when fewer than MAX_REQUESTS others run. */
function enqueueLoad(load) {
  return new Promise((done) => {
    waiting.push(() => load().catch(() => null).then(done).finally(() => (busy--, startLoads())));
    startLoads();
  });
}

function startLoads() {
  while (busy < MAX_REQUESTS && waiting.length) (busy++, waiting.shift()());
}

/** The last ticks of a schedule, loaded when the strip is visible, and again when `version` changes. */
export function TickStrip({ name, version }) {
  const place = useRef();
  const [seen, see] = useState(false);
  const [found, set] = useState(null);
  useEffect(() => {
    const watching = new IntersectionObserver((entries) => see(entries.at(-1).isIntersecting), { rootMargin: "100px" });
    watching.observe(place.current);
    return () => watching.disconnect();
  }, []);
  const last = useRef(0);
  useEffect(() => {
    if (!seen) return;
    const stop = new AbortController();
    const load = () => enqueueLoad(async () => {
      if (stop.signal.aborted) return;
      last.current = Date.now();
      const answer = await loadTicks(name, { limit: STRIP_TICKS }, stop.signal);
      if (!stop.signal.aborted) set(answer);
    });
    const timer = setTimeout(load, Math.max(0, last.current + MIN_RELOAD_MS - Date.now()));
    return () => (clearTimeout(timer), stop.abort());
  }, [seen, name, version]);
  return html`<div class="strip" ref=${place}>${found && (found.ticks.length
    ? html`<ol aria-label=${`Last ticks of ${name}, oldest first`}>${found.ticks.toReversed().map((tick) => html`
        <${TickMark} key=${tick.n} tick=${tick} job=${found.jobs.get(tick.job_id)} />`)}</ol>`
    : html`<span class="muted">no ticks yet</span>`)}</div>`;
}

function TickMark({ tick, job }) {
  const words = tickTitle(tick, job);
  const mark = html`<i class=${`fate fate-${tickState(tick, job)}`}></i>`;
  return html`<li>${tick.job_id
    ? html`<a href=${jobLink(tick.job_id)} title=${words} aria-label=${words}>${mark}</a>`
    : html`<span role="img" title=${words} aria-label=${words}>${mark}</span>`}</li>`;
}

const LEGEND = [
  ["completed", "completed"], ["partial", "partial"], ["running", "in progress"], ["retrying", "retrying"],
  ["dead", "dead"], ["cancelled", "cancelled"], ["skipped", "skipped"], ["missed", "missed"],
];

/** The legend of a strip. */
export function TickLegend() {
  return html`<p class="strip-legend muted">${LEGEND.map(([name, words]) => html`
    <span key=${name}><i class=${`fate fate-${name}`}></i>${words}</span>`)}</p>`;
}
