// What needs somebody, from what the API says: each with words, and the page where it is mended.
import { duration, percent, plural } from "./format.js";
import { queueLink } from "./parts/queue.js";
import { service } from "./parts/service.js";
import { jobLink, link, scheduleLink } from "./route.js";

// Seconds that a due job may wait, and after which that is grave; as `mainspring doctor` sees it.
const SLOW = 60;
const GRAVE = 300;
// Of a task's runs so many fail that it is told, if there were enough of them; as the alert has it.
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
    ...tripped(facts), ...failing(facts), ...unwell(facts),
  ];
  return found.sort((a, b) => (a.level === b.level ? 0 : a.level === "bad" ? -1 : 1));
}

/** What is said where nothing is wrong. */
export function wellness({ stats, workers, oldest, died, now }) {
  const said = [];
  if (workers?.length) {
    const slots = workers.reduce((sum, one) => sum + one.concurrency, 0);
    said.push(`${plural(workers.length, "worker")} with ${plural(slots, "slot")}`);
  } else if (workers) return "no worker is alive, and nothing waits for one";
  if (oldest && waited(oldest, now) >= 1) said.push(`no due job has waited for more than ${duration(waited(oldest, now))}`);
  else if (stats) said.push("no due job waits");
  if (died) said.push("none died in the last hour");
  return said.join("; ");
}

const waited = (job, now) => (now - Date.parse(job.run_at)) / 1000;
const due = (queue) => queue.pending;
const few = (names) => names.slice(0, NAMED).join(", ") + (names.length > NAMED ? ` and ${names.length - NAMED} more` : "");
const are = (n, word) => `${plural(n, word)} ${n === 1 ? "is" : "are"}`;

function alive({ stats, workers, outlook }) {
  if (!stats || !workers || workers.length) return [];
  const [now, later, ticking] = [stats.pending, stats.scheduled + stats.retrying, outlook?.active ?? 0];
  const coming = [later && plural(later, "job"), ticking && plural(ticking, "schedule")].filter(Boolean).join(" and ");
  if (!now && !coming) return [];
  const text = now ? `No worker is alive, and ${are(now, "job")} due.` : `No worker is alive, and ${coming} will be due.`;
  return [{ key: "alive", level: now ? "bad" : "warn", text, href: "workers", label: "Start a worker" }];
}

function unserved({ stats, workers }) {
  if (!stats || !workers?.length) return [];
  return stats.queues.filter((queue) => due(queue) && !queue.paused && !service(workers, queue.name).taking.length)
    .map((queue) => {
      const drained = service(workers, queue.name).all.length;
      const text = drained ? `Every worker of queue ${queue.name} is drained` : `No worker serves queue ${queue.name}`;
      return { key: `unserved ${queue.name}`, level: "bad", text: `${text}; ${are(due(queue), "job")} due.`, href: drained ? "workers" : queueLink(queue.name), label: drained ? "Workers" : "Queue" };
    });
}

function held({ stats }) {
  return (stats?.queues ?? []).filter((queue) => queue.paused && due(queue) + queue.retrying).map((queue) => {
    const n = due(queue) + queue.retrying;
    return {
      key: `held ${queue.name}`, level: "warn", text: `Queue ${queue.name} is paused; ${plural(n, "job")} ${n === 1 ? "waits" : "wait"}.`,
      href: queueLink(queue.name), label: "Queue", queue,
    };
  });
}

function waits({ oldest, now, workers, stats }) {
  const seconds = oldest ? waited(oldest, now) : 0;
  if (seconds < SLOW || !workers?.length) return [];
  const known = unserved({ stats, workers }).some((one) => one.key === `unserved ${oldest.queue}`);
  if (known) return [];
  return [{
    key: "waits", level: seconds >= GRAVE ? "bad" : "warn", text: `The oldest due job, ${oldest.task} in ${oldest.queue}, has waited ${duration(seconds)}.`,
    more: oldest.why, href: jobLink(oldest.id), label: "Why?",
  }];
}

function deaths({ died }) {
  if (!died?.jobs.length) return [];
  const n = died.jobs.length;
  const groups = new Map();
  for (const job of died.jobs) groups.set(job.task, [...(groups.get(job.task) ?? []), job]);
  const [task, most] = [...groups].sort((a, b) => b[1].length - a[1].length)[0];
  const some = `${died.more ? "At least " : ""}${plural(n, "job")}`;
  const text = groups.size > 1 ? `${some} died in the last hour, most of them ${task}.` : `${some} of ${task} died in the last hour.`;
  return [{ key: "died", level: "bad", text, more: most[0].error, href: "dead", label: "Dead letters" }];
}

function late({ outlook, now }) {
  const rows = outlook?.late ?? [];
  if (!rows.length) return [];
  const by = duration((now - Date.parse(rows[0].due_at)) / 1000);
  const text = rows.length === 1 ? `Schedule ${rows[0].name} is late by ${by}.` : `${rows.length} schedules are late, ${rows[0].name} by ${by}.`;
  return [{ key: "late", level: "bad", text, href: rows.length === 1 ? scheduleLink(rows[0].name) : "schedules", label: "Schedules" }];
}

function tripped({ outlook }) {
  return (outlook?.tripped ?? []).map((row) => ({
    key: `tripped ${row.name}`, level: "warn", text: `Schedule ${row.name} paused itself after ${plural(row.failures, "failure")} in a row.`,
    href: scheduleLink(row.name), label: "See and resume",
  }));
}

/** A task whose jobs die is told of already. */
function failing({ stats, died }) {
  const dying = new Set(died?.jobs.map((job) => job.task));
  return Object.entries(stats?.by_task ?? {})
    .filter(([task, one]) => !dying.has(task) && one.runs > ENOUGH && one.failed / one.runs > FAILING)
    .sort((a, b) => b[1].failed - a[1].failed).slice(0, NAMED)
    .map(([task, one]) => ({
      key: `failing ${task}`, level: "warn", text: `${percent(one.failed / one.runs)} of the runs of ${task} failed.`,
      href: link("jobs", { task, state: ["dead", "retrying"] }), label: "Its failed jobs",
    }));
}

function unwell({ workers }) {
  const found = [];
  const all = workers ?? [];
  const silent = all.filter((one) => one.shown === "late");
  if (silent.length) {
    const text = `${plural(silent.length, "worker")} ${silent.length === 1 ? "has" : "have"} fallen silent: ${few(silent.map((one) => one.id))}.`;
    found.push({ key: "silent", level: "warn", text, href: "workers", label: "Workers" });
  }
  const leaky = all.filter((one) => one.leaked);
  if (leaky.length) {
    const text = `Runs that ignore their interruption hold slots: ${few(leaky.map((one) => `${one.leaked} of ${one.concurrency} on ${one.id}`))}.`;
    found.push({ key: "leaked", level: "warn", text, href: "workers", label: "Workers" });
  }
  const deaf = all.filter((one) => one.deaf);
  if (deaf.length) {
    const text = `${plural(deaf.length, "worker")} ${deaf.length === 1 ? "hears" : "hear"} no news and ${deaf.length === 1 ? "looks" : "look"} for jobs at intervals.`;
    found.push({ key: "deaf", level: "warn", text, href: "workers", label: "Workers" });
  }
  return found;
}
