// Queues: loading their rows, and the parts that several pages show.
import { get, post, segment } from "../api.js";
import { plural } from "../format.js";
import { html, useState } from "../html.js";
import { jobsLink } from "../route.js";
import { useSession } from "../session.js";
import { ActionButton } from "./action_button.js";
import { Field, FormDialog, withToast } from "./form.js";
import { Icon } from "./icons.js";
import { blockedReason, queueWorkers } from "./queue_workers.js";
import { State } from "./state.js";
import { Time } from "./time.js";

const EMPTY_QUEUE = { paused: false, pending: 0, scheduled: 0, retrying: 0, running: 0 };
const MAX_OLDEST_REQUESTS = 12; // for the oldest job of a queue, at once

export const queueLink = (name) => `queues/${encodeURIComponent(name)}`;

/**
 * Loads the rows of all queues: those that hold jobs, and empty ones that ran jobs or that tasks or workers name.
 * `known` is a Set of names that the caller keeps, so that no row disappears while the page is open.
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
    const queue = items.find((one) => one.name === name) ?? { ...EMPTY_QUEUE, name };
    const serving = workers && queueWorkers(workers.items, name);
    const figures = stats && (stats.by_queue[name] ?? { runs: 0, failed: 0 });
    return { ...queue, figures, service: serving, blocked: serving && blockedReason(serving) };
  });
  const oldest = await loadOldest(session, rows, signal);
  return rows.map((row) => ({ ...row, oldest: oldest.get(row.name) }));
}

async function loadOldest(session, rows, signal) {
  if (!session.sees("jobs")) return new Map();
  const waiting = rows.filter((row) => row.pending).sort((a, b) => b.pending - a.pending).slice(0, MAX_OLDEST_REQUESTS);
  return new Map(await Promise.all(waiting.map(async ({ name }) => [name, await oldestOf(name, signal)])));
}

/** The time at which the longest-waiting job of a queue became due. */
export async function oldestOf(queue, signal) {
  const { items } = await get("jobs", { queue, state: "pending", sort: "due", order: "asc", limit: 1 }, signal);
  return items[0]?.run_at;
}

const MAX_NOTE_CHARACTERS = 1000; // characters

/** Pauses the queue, with a note; or resumes it if it is paused. */
export function PauseButton({ queue, after }) {
  const [asking, ask] = useState(false);
  const { name, paused } = queue;
  if (!useSession().may("operator", "queues")) return null;
  const resume = async () => (await post(`queues/${segment(name)}/resume`), await after(), `Resumed queue ${name}.`);
  if (paused) return html`<${ActionButton} icon="play" label=${`Resume queue ${name}`} run=${resume}>Resume<//>`;
  return html`<button type="button" aria-label=${`Pause queue ${name}`} title=${`Pause queue ${name}`}
      onClick=${() => ask(true)}><${Icon} name="pause" />Pause</button>
    ${asking && html`<${PauseDialog} name=${name} onClose=${() => ask(false)} onDone=${after} />`}`;
}

function PauseDialog({ name, onClose, onDone }) {
  const [note, set] = useState("");
  const run = async () => (await post(`queues/${segment(name)}/pause`, { note: note.trim() }), `Paused queue ${name}.`);
  return html`<${FormDialog} title=${`Pause queue ${name}`} action="Pause" run=${withToast(run, onDone)}
      onClose=${onClose}>
    <p>Workers start no more jobs from it until it is resumed. Running jobs finish, and new jobs are accepted.</p>
    <${Field} label="Note" value=${note} onValue=${set} maxlength=${MAX_NOTE_CHARACTERS} autofocus
      placeholder="the reason, for others who find it paused" />
  <//>`;
}

/** The pause of a queue: by whom, when, and the note. */
export function Paused({ queue: { paused_by: who, paused_at: at, note } }) {
  return html`<span class="paused"><${State} of="paused" />
    ${at && html`<span class="muted"> ${who ? `by ${who}, ` : ""}<${Time} at=${at} /></span>`}
    ${note && html`<span class="pause-note">${note}</span>`}</span>`;
}

/** A number that links to its jobs. */
export function JobsFigure({ n, queue, state, children }) {
  if (!n || !useSession().sees("jobs")) return html`<span class=${n ? "" : "muted"}>${children}</span>`;
  return html`<a href=${jobsLink({ queue, state })} aria-label=${`${n} ${state} in ${queue}`}>${children}</a>`;
}

/** The workers of a queue in a few words; a warning if jobs wait and no worker takes them. */
export function QueueService({ of: row }) {
  if (!row.service) return html`<span class="muted">–</span>`;
  const { all, taking, slots } = row.service;
  if (taking.length) return html`<span class="nowrap">${taking.length} · ${plural(slots, "slot")}</span>`;
  const words = all.length ? "all drained" : "no worker";
  if (!(row.pending + row.retrying + row.scheduled)) return html`<span class="muted nowrap"
    title=${row.blocked}>${words}</span>`;
  return html`<span class="state state-dead" title=${row.blocked}><${Icon} name="warning" />${words}</span>`;
}
