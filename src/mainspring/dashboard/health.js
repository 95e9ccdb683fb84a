// Problems that need attention, found in API responses: each with a text and a link to the page where it can be fixed.
import { duration, percent, plural } from "./format.js";
import { queueLink } from "./parts/queue.js";
import { queueWorkers } from "./parts/queue_workers.js";
import { jobLink, link, scheduleLink } from "./route.js";

// Waits of a due job that are a warning, and an error; as in `mainspring doctor`.
const SLOW_SECONDS = 60;
const TOO_SLOW_SECONDS = 300;
// A task is failing if a larger share of its runs failed, out of more than this number; as in the alert.
const MAX_FAILED_SHARE = 0.25;
const MIN_RUNS = 10;
const MAX_NAMED = 3;

/**
 * `facts` is {stats, workers, outlook, died, oldest, now}, each undefined if the viewer may not see it.
 * Returns [{key, level: "bad" | "warn", text, more, href, label, queue}], the worst first.
 */
export function findProblems(facts) {
  const found = [
    noWorkers, unservedQueues, pausedQueues, longWait, recentDeaths, lateSchedules, trippedSchedules, failingTasks,
    silentWorkers, leakedSlots, pollingWorkers,
  ].flatMap((check) => check(facts));
  return found.sort((a, b) => (a.level === b.level ? 0 : a.level === "bad" ? -1 : 1));
}

/** The text if there is no problem. */
export function healthyText({ stats, workers, oldest, died, now }) {
  const parts = [];
  if (workers?.length) {
    const slots = workers.reduce((sum, one) => sum + one.concurrency, 0);
    parts.push(`${plural(workers.length, "worker")} with ${plural(slots, "slot")}`);
  } else if (workers) return "no worker is running, and no job is waiting";
  const seconds = oldest ? waitSeconds(oldest, now) : 0;
  if (seconds >= 1) parts.push(`the oldest due job has waited ${duration(seconds)}`);
  else if (stats) parts.push("no due job is waiting");
  if (died) parts.push("no job died in the last hour");
  return parts.join("; ");
}

const bad = (key, text, href, label, rest) => ({ key, level: "bad", text, href, label, ...rest });
const warn = (key, text, href, label, rest) => ({ ...bad(key, text, href, label, rest), level: "warn" });
const waitSeconds = (job, now) => (now - Date.parse(job.run_at)) / 1000;
const areText = (n, word) => `${plural(n, word)} ${n === 1 ? "is" : "are"}`;

function firstNames(names) {
  const rest = names.length - MAX_NAMED;
  return names.slice(0, MAX_NAMED).join(", ") + (rest > 0 ? ` and ${rest} more` : "");
}

function noWorkers({ stats, workers, outlook }) {
  if (!stats || !workers || workers.length) return [];
  const [later, ticking] = [stats.scheduled + stats.retrying, outlook?.active ?? 0];
  const coming = [later && plural(later, "job"), ticking && plural(ticking, "schedule")].filter(Boolean).join(" and ");
  const none = (words) => `No worker is running, and ${words} due.`;
  if (stats.pending) return [bad("alive", none(areText(stats.pending, "job")), "workers", "Start a worker")];
  return coming ? [warn("alive", none(`${coming} will be`), "workers", "Start a worker")] : [];
}

function unservedQueues({ stats, workers }) {
  if (!stats || !workers?.length) return [];
  const stuck = stats.queues.filter(
    ({ name, pending, paused }) => pending && !paused && !queueWorkers(workers, name).taking.length,
  );
  return stuck.map(({ name, pending }) => {
    const [key, due] = [`unserved ${name}`, `${areText(pending, "job")} due.`];
    if (queueWorkers(workers, name).all.length) {
      return bad(key, `Every worker of queue ${name} is drained; ${due}`, "workers", "Workers");
    }
    return bad(key, `No worker serves queue ${name}; ${due}`, queueLink(name), "Queue");
  });
}

function pausedQueues({ stats }) {
  return (stats?.queues ?? []).filter((one) => one.paused && one.pending + one.retrying).map((queue) => {
    const n = queue.pending + queue.retrying;
    const by = queue.paused_by ? ` by ${queue.paused_by}` : "";
    const text = `Queue ${queue.name} is paused${by}; ${plural(n, "job")} ${n === 1 ? "waits" : "wait"}.`;
    return warn(`held ${queue.name}`, text, queueLink(queue.name), "Queue", { queue, more: queue.note });
  });
}

function longWait({ oldest, now, workers, stats }) {
  const seconds = oldest ? waitSeconds(oldest, now) : 0;
  const reported = oldest && unservedQueues({ stats, workers }).some((one) => one.key === `unserved ${oldest.queue}`);
  if (seconds < SLOW_SECONDS || !workers?.length || reported) return [];
  const text = `The oldest due job, ${oldest.task} in ${oldest.queue}, has waited ${duration(seconds)}.`;
  return [(seconds < TOO_SLOW_SECONDS ? warn : bad)("waits", text, jobLink(oldest.id), "Why?", { more: oldest.why })];
}

function recentDeaths({ died }) {
  if (!died?.jobs.length) return [];
  const groups = new Map();
  for (const job of died.jobs) groups.set(job.task, [...(groups.get(job.task) ?? []), job]);
  const [task, most] = [...groups].sort((a, b) => b[1].length - a[1].length)[0];
  const some = `${died.more ? "At least " : ""}${plural(died.jobs.length, "job")}`;
  const text = groups.size > 1
    ? `${some} died in the last hour, most of them ${task}.`
    : `${some} of ${task} died in the last hour.`;
  return [bad("died", text, "dead", "Dead letters", { more: most[0].message })];
}

function lateSchedules({ outlook, now }) {
  const [first, ...more] = outlook?.late ?? [];
  if (!first) return [];
  const by = duration((now - Date.parse(first.due_at)) / 1000);
  if (!more.length) {
    return [bad("late", `Schedule ${first.name} is late by ${by}.`, scheduleLink(first.name), "Schedule")];
  }
  return [bad("late", `${more.length + 1} schedules are late, ${first.name} by ${by}.`, "schedules", "Schedules")];
}

function trippedSchedules({ outlook }) {
  return (outlook?.tripped ?? []).map(({ name, failures }) => {
    const text = `Schedule ${name} paused itself after ${plural(failures, "failure")} in a row.`;
    return warn(`tripped ${name}`, text, scheduleLink(name), "Schedule");
  });
}

/** Without tasks whose jobs died: recentDeaths() names them. */
function failingTasks({ stats, died }) {
  const dying = new Set(died?.jobs.map((job) => job.task));
  return Object.entries(stats?.by_task ?? {})
    .filter(([task, one]) => !dying.has(task) && one.runs > MIN_RUNS && one.failed / one.runs > MAX_FAILED_SHARE)
    .sort((a, b) => b[1].failed - a[1].failed).slice(0, MAX_NAMED)
    .map(([task, { runs, failed }]) => {
      const href = link("jobs", { task, state: ["dead", "retrying"] });
      const words = `${percent(failed / runs)} of the runs of ${task} failed.`;
      return warn(`failing ${task}`, words, href, "Failed jobs");
    });
}

function silentWorkers({ workers = [] }) {
  const found = workers.filter((one) => one.shown === "late");
  if (!found.length) return [];
  const who = found.length === 1 ? "A worker sends" : `${found.length} workers send`;
  return [warn("silent", `${who} no heartbeat: ${firstNames(found.map((one) => one.id))}.`, "workers", "Workers")];
}

function leakedSlots({ workers = [] }) {
  const found = workers.filter((one) => one.leaked).map((one) => `${one.leaked} of ${one.concurrency} on ${one.id}`);
  if (!found.length) return [];
  return [warn("leaky", `Runs that ignore their cancellation hold slots: ${firstNames(found)}.`, "workers", "Workers")];
}

function pollingWorkers({ workers = [] }) {
  const found = workers.filter((one) => one.deaf).map((one) => one.id);
  const text = `These workers get no notifications and poll for jobs: ${firstNames(found)}.`;
  return found.length ? [warn("deaf", text, "workers", "Workers")] : [];
}
