// Outcomes of ticks: each with a colour, a shape and words; and the last of them in a strip.
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

/** Why a tick was not fired, or who asked for it. */
export const reasonWords = (reason) => REASONS[reason] ?? reason;

/** How a tick is drawn: the state of its job, or that it completed in part, if that is known, else its outcome. */
export const fate = (tick, job) => (tick.what === "fired" ? job?.outcome ?? job?.shown ?? "fired" : tick.what);

/** A tick in one line. */
function tickWords(tick, job) {
  const when = local(tick.at) + (tick.last_at ? ` to ${local(tick.last_at)}, ${plural(tick.count, "tick")}` : "");
  const made = job ? `job ${fate(tick, job)}` : "job created, no longer kept";
  const end = tick.what === "fired" ? made : tick.what;
  return `${when}: ${end}${tick.reason ? ` (${reasonWords(tick.reason)})` : ""}`;
}

/** { ticks, jobs }: the newest ticks before number `before`, and their jobs by id, as far as these are kept. */
export async function ticksOf(name, { limit, before }, signal) {
  const ticks = await get(`schedules/${segment(name)}/ticks`, { limit, before }, signal);
  const fired = ticks.filter((tick) => tick.job_id);
  const some = { schedule: name, limit: Math.min(200, 2 * limit) };
  const found = fired.length ? (await get("jobs", { ...some, ...between(fired) }, signal)).items : [];
  return { ticks, jobs: new Map(found.map((job) => [job.id, job])) };
}

/** Jobs are made when the fate of their ticks is decided, give or take what clocks differ. */
function between(ticks) {
  const at = ticks.map((tick) => Date.parse(tick.seen_at));
  const text = (ms) => new Date(ms).toISOString();
  return { created_after: text(Math.min(...at) - 2000), created_before: text(Math.max(...at) + 2000) };
}

const STRIP = 20;
const AT_ONCE = 3; // a browser has six connections to a host, and the feed has one of them
const REST = 3000; // milliseconds between two loads of one strip
const waiting = [];
let busy = 0;

/** Runs `load` when fewer than AT_ONCE others do. */
function inTurn(load) {
  return new Promise((done) => {
    waiting.push(() => load().catch(() => null).then(done).finally(() => (busy--, turn())));
    turn();
  });
}

function turn() {
  while (busy < AT_ONCE && waiting.length) (busy++, waiting.shift()());
}

/** The last ticks of a schedule, loaded once it is on screen, and again when `version` changes. */
export function Strip({ name, version }) {
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
    const load = () => inTurn(async () => {
      if (stop.signal.aborted) return;
      last.current = Date.now();
      const answer = await ticksOf(name, { limit: STRIP }, stop.signal);
      if (!stop.signal.aborted) set(answer);
    });
    const timer = setTimeout(load, Math.max(0, last.current + REST - Date.now()));
    return () => (clearTimeout(timer), stop.abort());
  }, [seen, name, version]);
  return html`<div class="strip" ref=${place}>${found && (found.ticks.length
    ? html`<ol aria-label=${`Last ticks of ${name}, oldest first`}>${found.ticks.toReversed().map((tick) => html`
        <${Mark} key=${tick.n} tick=${tick} job=${found.jobs.get(tick.job_id)} />`)}</ol>`
    : html`<span class="muted">no ticks yet</span>`)}</div>`;
}

function Mark({ tick, job }) {
  const words = tickWords(tick, job);
  const mark = html`<i class=${`fate fate-${fate(tick, job)}`}></i>`;
  return html`<li>${tick.job_id
    ? html`<a href=${jobLink(tick.job_id)} title=${words} aria-label=${words}>${mark}</a>`
    : html`<span role="img" title=${words} aria-label=${words}>${mark}</span>`}</li>`;
}

const LEGEND = [
  ["completed", "completed"], ["partial", "partial"], ["running", "in progress"], ["retrying", "retrying"],
  ["dead", "dead"], ["cancelled", "cancelled"], ["skipped", "skipped"], ["missed", "missed"],
];

/** What the shapes of a strip mean. */
export function StripLegend() {
  return html`<p class="strip-legend muted">${LEGEND.map(([name, words]) => html`
    <span key=${name}><i class=${`fate fate-${name}`}></i>${words}</span>`)}</p>`;
}
