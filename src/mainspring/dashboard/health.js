// What needs attention, from the answers of the API: each with words, and the page where it can be fixed.
import { duration, percent, plural } from "./format.js";
import { queueLink } from "./parts/queue.js";
import { service } from "./parts/service.js";
import { jobLink, link, scheduleLink } from "./route.js";

// Seconds that a due job may wait, and after which that is grave; as `mainspring doctor` sees it.
const SLOW = 60;
const GRAVE = 300;
// The share of a task's runs that fail, and the runs there must be, as in the alert.
const FAILING = 0.25;
const ENOUGH = 10;
const NAMED = 3;

/**
 * `facts`: {stats, workers, outlook, died, oldest, now}, each undefined where it may not be seen.
 * Answers [{key, level: "bad" | "warn", text, more, href, label, queue}], the worst first.
 */
export function troubles(facts) {
  const found = [
    ...alive(facts), ...unserved(facts), ...held(facts), ...waits(facts), ...deaths(facts), ...late(facts),
    ...tripped(facts), ...failing(facts), ...silent(facts), ...leaky(facts), ...deaf(facts),
  ];
  return found.sort((a, b) => (a.level === b.level ? 0 : a.level === "bad" ? -1 : 1));
}

/** The words where nothing is wrong. */
export function wellness({ stats, workers, oldest, died, now }) {
  const said = [];
  if (workers?.length) {
    const slots = workers.reduce((sum, one) => sum + one.concurrency, 0);
    said.push(`${plural(workers.length, "worker")} with ${plural(slots, "slot")}`);
  } else if (workers) return "no worker is running, and no job is waiting";
  const seconds = oldest ? waited(oldest, now) : 0;
  if (seconds >= 1) said.push(`the oldest due job has waited ${duration(seconds)}`);
  else if (stats) said.push("no due job is waiting");
  if (died) said.push("no job died in the last hour");
  return said.join("; ");
}

const bad = (key, text, href, label, rest) => ({ key, level: "bad", text, href, label, ...rest });
const warn = (key, text, href, label, rest) => ({ ...bad(key, text, href, label, rest), level: "warn" });
const waited = (job, now) => (now - Date.parse(job.run_at)) / 1000;
const are = (n, word) => `${plural(n, word)} ${n === 1 ? "is" : "are"}`;

function few(names) {
  const rest = names.length - NAMED;
  return names.slice(0, NAMED).join(", ") + (rest > 0 ? ` and ${rest} more` : "");
}

function alive({ stats, workers, outlook }) {
  if (!stats || !workers || workers.length) return [];
  const [later, ticking] = [stats.scheduled + stats.retrying, outlook?.active ?? 0];
  const coming = [later && plural(later, "job"), ticking && plural(ticking, "schedule")].filter(Boolean).join(" and ");
  const none = (words) => `No worker is running, and ${words} due.`;
  if (stats.pending) return [bad("alive", none(are(stats.pending, "job")), "workers", "Start a worker")];
  return coming ? [warn("alive", none(`${coming} will be`), "workers", "Start a worker")] : [];
}

function unserved({ stats, workers }) {
  if (!stats || !workers?.length) return [];
  const stuck = stats.queues.filter(
    ({ name, pending, paused }) => pending && !paused && !service(workers, name).taking.length,
  );
  return stuck.map(({ name, pending }) => {
    const [key, due] = [`unserved ${name}`, `${are(pending, "job")} due.`];
    if (service(workers, name).all.length) {
      return bad(key, `Every worker of queue ${name} is drained; ${due}`, "workers", "Workers");
    }
    return bad(key, `No worker serves queue ${name}; ${due}`, queueLink(name), "Queue");
  });
}

function held({ stats }) {
  return (stats?.queues ?? []).filter((one) => one.paused && one.pending + one.retrying).map((queue) => {
    const n = queue.pending + queue.retrying;
    const by = queue.paused_by ? ` by ${queue.paused_by}` : "";
    const text = `Queue ${queue.name} is paused${by}; ${plural(n, "job")} ${n === 1 ? "waits" : "wait"}.`;
    return warn(`held ${queue.name}`, text, queueLink(queue.name), "Queue", { queue, more: queue.note });
  });
}

function waits({ oldest, now, workers, stats }) {
  const seconds = oldest ? waited(oldest, now) : 0;
  const told = oldest && unserved({ stats, workers }).some((one) => one.key === `unserved ${oldest.queue}`);
  if (seconds < SLOW || !workers?.length || told) return [];
  const text = `The oldest due job, ${oldest.task} in ${oldest.queue}, has waited ${duration(seconds)}.`;
  return [(seconds < GRAVE ? warn : bad)("waits", text, jobLink(oldest.id), "Why?", { more: oldest.why })];
}

function deaths({ died }) {
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

function late({ outlook, now }) {
  const [first, ...more] = outlook?.late ?? [];
  if (!first) return [];
  const by = duration((now - Date.parse(first.due_at)) / 1000);
  if (!more.length) {
    return [bad("late", `Schedule ${first.name} is late by ${by}.`, scheduleLink(first.name), "Schedule")];
  }
  return [bad("late", `${more.length + 1} schedules are late, ${first.name} by ${by}.`, "schedules", "Schedules")];
}

function tripped({ outlook }) {
  return (outlook?.tripped ?? []).map(({ name, failures }) => {
    const text = `Schedule ${name} paused itself after ${plural(failures, "failure")} in a row.`;
    return warn(`tripped ${name}`, text, scheduleLink(name), "Schedule");
  });
}

/** Tasks whose jobs died are left out: deaths() names them. */
function failing({ stats, died }) {
  const dying = new Set(died?.jobs.map((job) => job.task));
  return Object.entries(stats?.by_task ?? {})
    .filter(([task, one]) => !dying.has(task) && one.runs > ENOUGH && one.failed / one.runs > FAILING)
    .sort((a, b) => b[1].failed - a[1].failed).slice(0, NAMED)
    .map(([task, { runs, failed }]) => {
      const href = link("jobs", { task, state: ["dead", "retrying"] });
      const words = `${percent(failed / runs)} of the runs of ${task} failed.`;
      return warn(`failing ${task}`, words, href, "Failed jobs");
    });
}

function silent({ workers = [] }) {
  const found = workers.filter((one) => one.shown === "late");
  if (!found.length) return [];
  const who = found.length === 1 ? "A worker sends" : `${found.length} workers send`;
  return [warn("silent", `${who} no heartbeat: ${few(found.map((one) => one.id))}.`, "workers", "Workers")];
}

function leaky({ workers = [] }) {
  const found = workers.filter((one) => one.leaked).map((one) => `${one.leaked} of ${one.concurrency} on ${one.id}`);
  if (!found.length) return [];
  return [warn("leaky", `Runs that ignore their cancellation hold slots: ${few(found)}.`, "workers", "Workers")];
}

function deaf({ workers = [] }) {
  const found = workers.filter((one) => one.deaf).map((one) => one.id);
  const text = `These workers get no notifications and poll for jobs: ${few(found)}.`;
  return found.length ? [warn("deaf", text, "workers", "Workers")] : [];
}
