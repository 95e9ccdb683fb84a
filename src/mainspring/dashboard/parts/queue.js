// What is known of queues, from all who know something: those with jobs, those that ran some, tasks and workers.
import { get, post, segment } from "../api.js";
import { plural } from "../format.js";
import { html } from "../html.js";
import { jobsOf } from "../route.js";
import { useSession } from "../session.js";
import { Act } from "./act.js";
import { Icon } from "./icons.js";
import { hindrance, service } from "./service.js";

const NONE = { paused: false, pending: 0, scheduled: 0, retrying: 0, running: 0 };
const OLDEST = 12; // queues whose oldest job is asked for at once

export const queueLink = (name) => `queues/${encodeURIComponent(name)}`;

/**
 * The API's list has no queue that is empty now; whoever looks for it wants to find it. `known` is a Set of names, kept
 * by whoever asks, so that no row goes away while somebody looks.
 */
export async function loadQueues(session, window, known, signal) {
  const seen = (scope, path, query) => (session.sees(scope) ? get(path, query, signal) : null);
  const [{ items }, stats, workers, tasks] = await Promise.all([
    get("queues", {}, signal), seen("stats", "stats", { window }), seen("workers", "workers"), seen("tasks", "tasks"),
  ]);
  const names = [
    ...items.map((queue) => queue.name), ...Object.keys(stats?.by_queue ?? {}),
    ...(tasks?.items ?? []).map((task) => task.queue),
    ...(workers?.items ?? []).flatMap((worker) => worker.queues ?? []),
  ];
  names.forEach((name) => known.add(name));
  const rows = [...known].sort().map((name) => {
    const queue = items.find((one) => one.name === name) ?? { ...NONE, name };
    const who = workers && service(workers.items, name);
    const figures = stats && (stats.by_queue[name] ?? { runs: 0, failed: 0 });
    return { ...queue, figures, service: who, hindrance: who && hindrance(who) };
  });
  const [oldest, pauses] = await Promise.all([loadOldest(session, rows, signal), loadPauses(session, rows, signal)]);
  return rows.map((row) => ({ ...row, oldest: oldest.get(row.name), pause: pauses.get(row.name) }));
}

async function loadOldest(session, rows, signal) {
  if (!session.sees("jobs")) return new Map();
  const waiting = rows.filter((row) => row.pending).sort((a, b) => b.pending - a.pending).slice(0, OLDEST);
  return new Map(await Promise.all(waiting.map(async ({ name }) => [name, await oldestOf(name, signal)])));
}

/** When the job that waits longest became due. */
export async function oldestOf(queue, signal) {
  const { items } = await get("jobs", { queue, state: "pending", sort: "due", order: "asc", limit: 1 }, signal);
  return items[0]?.run_at;
}

/** By queue who paused it last, and when, as far as the trail is read. */
async function loadPauses(session, rows, signal) {
  if (!session.sees("audit") || !rows.some((row) => row.paused)) return new Map();
  const { items } = await get("audit", { action: "queues.pause", limit: 100 }, signal);
  return new Map(items.reverse().map((entry) => [entry.target, entry]));
}

/** Pauses what runs, resumes what is paused. */
export function PauseButton({ queue, after }) {
  const verb = queue.paused ? "resume" : "pause";
  const run = async () => {
    await post(`queues/${segment(queue.name)}/${verb}`);
    await after();
    return queue.paused
      ? `Queue ${queue.name} goes on.`
      : `Queue ${queue.name} is paused: nothing new is taken from it.`;
  };
  if (!useSession().may("operator", "queues")) return null;
  const words = queue.paused ? "Resume" : "Pause";
  return html`<${Act} icon=${queue.paused ? "play" : "pause"} label=${`${words} queue ${queue.name}`}
    run=${run}>${words}<//>`;
}

/** A figure that leads to its jobs. */
export function JobsFigure({ n, queue, state, children }) {
  if (!n || !useSession().sees("jobs")) return html`<span class=${n ? "" : "muted"}>${children}</span>`;
  return html`<a href=${jobsOf({ queue, state })} aria-label=${`${n} ${state} in ${queue}`}>${children}</a>`;
}

/** Who serves it, in a few words; loud where jobs wait for that. */
export function Service({ of: row }) {
  if (!row.service) return html`<span class="muted">–</span>`;
  const { all, taking, slots } = row.service;
  if (taking.length) return html`<span class="nowrap">${taking.length} · ${plural(slots, "slot")}</span>`;
  const words = all.length ? "all drained" : "no worker";
  if (!(row.pending + row.retrying + row.scheduled)) return html`<span class="muted nowrap"
    title=${row.hindrance}>${words}</span>`;
  return html`<span class="state state-dead" title=${row.hindrance}><${Icon} name="warning" />${words}</span>`;
}
