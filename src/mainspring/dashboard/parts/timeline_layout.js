// The layout of a job's timeline: its waits and runs, to scale. Pure functions; job_timeline.js renders the result.
const ms = (at) => Date.parse(at);
const UNCOUNTED = new Set(["snoozed", "released", "suspended"]);
// Of the width: minimum of a run, minimum of a wait, and maximum of all times in which nothing happens.
const MIN_RUN_PERCENT = 2;
const MIN_WAIT_PERCENT = 0.5;
const MAX_IDLE_PERCENT = 30;

/**
 * The segments of a job's timeline, without gaps: [{kind, from, until, words, run}]. The `kind` of a run is its
 * outcome. Times are milliseconds. `pauses` are the pauses of the job's queue, newest first.
 */
export function timelineSegments(job, runs, now, pauses = []) {
  const split = (one) => (one.kind === "pending" ? splitByPauses(one, pauses, now) : [one]);
  return allSegments(job, runs, now).flatMap(split);
}

/** Splits a wait for a worker into the parts before, during and after pauses of the queue. */
function splitByPauses(wait, pauses, now) {
  const found = [];
  let at = wait.from;
  for (const pause of pauses.toReversed()) { // oldest first
    const from = Math.max(at, ms(pause.at)), until = Math.min(wait.until, pause.until ? ms(pause.until) : now);
    if (until <= from) continue;
    if (from > at) found.push({ ...wait, from: at, until: from });
    found.push({ ...wait, kind: "held", from, until: (at = until), words: "queue paused" });
  }
  return at < wait.until ? [...found, { ...wait, from: at }] : found;
}

function allSegments(job, runs, now) {
  const found = [];
  let at = ms(job.created_at);
  let before = null;
  const wait = (until, last) => {
    found.push(...waits(job, at, until, before, last));
    at = Math.max(at, until);
  };
  const hidden = job.runs - runs.length - (job.state === "running");
  if (hidden > 0) {
    const until = runs.length ? ms(runs[0].started_at) : ms(job.started_at ?? job.created_at);
    found.push({ kind: "earlier", from: at, until, words: `${hidden} earlier runs` });
    at = until;
  }
  runs.forEach((run, n) => {
    const redriven = before && run.attempt <= before.attempt && !UNCOUNTED.has(before.ending);
    if (redriven) {
      const words = "finished, then redriven";
      found.push({ kind: "ended", from: at, until: (at = ms(run.started_at)), words });
    } else {
      wait(ms(run.started_at), n === runs.length - 1 && job.state !== "running" && job.finished_at);
    }
    const kind = run.outcome ?? run.ending;
    found.push({ kind, from: at, until: (at = Math.max(at, ms(run.finished_at))), run: run.number });
    before = run;
  });
  if (job.state === "running") {
    wait(ms(job.started_at), true);
    found.push({ kind: "running", from: at, until: Math.max(at, now), run: job.runs });
  } else if (job.finished_at) {
    if (ms(job.finished_at) > at + 1) wait(ms(job.finished_at), true);
  } else {
    wait(now, true);
    if (ms(job.run_at) > now) found.push({ ...waits(job, now, ms(job.run_at), before, true)[0], toCome: true });
  }
  return found.filter((one) => one.until > one.from || one.run);
}

const WORDS = {
  scheduled: "not due yet", retrying: "waiting for the next attempt", snoozed: "snoozed",
  waiting: "waiting", pending: "waiting for a worker",
};

/** The kind of the wait after a run. */
function waitKindAfter(run) {
  if (!run) return "scheduled";
  if (run.ending === "snoozed") return "snoozed";
  if (run.ending === "suspended") return "waiting";
  return run.ending === "released" ? "pending" : "retrying";
}

/** The waits between two runs: until the job was due, and then until a worker took it. */
function waits(job, from, until, before, last) {
  if (job.state === "paused" && last) return [{ kind: "paused", from, until, words: "paused" }];
  if (job.state === "waiting" && last) return [{ kind: "waiting", from, until, words: WORDS.waiting }];
  const kind = waitKindAfter(before);
  // The due time is stored only for the last run: the wait between two older runs is one segment.
  const known = last || (!before && job.runs <= 1);
  const due = Math.min(Math.max(known ? ms(job.run_at) : before ? until : from, from), until);
  return [
    { kind, from, until: due, words: WORDS[kind] },
    { kind: "pending", from: due, until, words: WORDS.pending },
  ].filter((one) => one.until > one.from);
}

/**
 * The segments with `left` and `width` in percent: to scale, but none too narrow to be visible. The future, and the
 * time between an end and a redrive, would leave no room for the rest: such a segment is `cut` if it is too long.
 */
export function scaleSegments(found) {
  const idle = (one) => one.toCome || one.kind === "ended";
  const busy = found.filter((one) => !idle(one)).reduce((sum, one) => sum + one.until - one.from, 0);
  const most = busy ? (busy * MAX_IDLE_PERCENT) / (100 - MAX_IDLE_PERCENT) / found.filter(idle).length : Infinity;
  const length = (one) => (idle(one) ? Math.min(one.until - one.from, most) : one.until - one.from);
  const runs = found.filter((one) => one.run).length;
  const least = (one) =>
    (one.run ? Math.min(MIN_RUN_PERCENT, 60 / runs) : Math.min(MIN_WAIT_PERCENT, 15 / found.length));
  const narrow = new Set();
  let rest = 100, sum = found.reduce((all, one) => all + length(one), 0) || 1;
  for (let again = true; again;) {
    again = false;
    for (const one of found) {
      if (narrow.has(one) || (length(one) / sum) * rest >= least(one)) continue;
      narrow.add(one);
      [rest, sum, again] = [rest - least(one), sum - length(one) || 1, true];
    }
  }
  let left = 0;
  return found.map((one) => {
    const width = narrow.has(one) ? least(one) : (length(one) / sum) * rest;
    left += width;
    return { ...one, left: left - width, width, cut: idle(one) && one.until - one.from > most };
  });
}

/** The positions of time labels, [{left, at}], at least `apart` percent from each other. */
export function timeLabels(drawn, apart = 14) {
  const ends = drawn.map((one) => ({ left: one.left, at: one.from, run: one.run }));
  const last = drawn.at(-1);
  const chosen = [ends[0], { left: last.left + last.width, at: last.until, end: true }];
  const free = (one) => chosen.every((other) => Math.abs(one.left - other.left) >= apart);
  for (const one of [...ends.filter((one) => one.run), ...ends]) if (free(one)) chosen.push(one);
  return chosen.sort((a, b) => a.left - b.left);
}
