// A job's life to scale: what it waited for, and each run. Pure: what is drawn is in lifeline.js.
const ms = (at) => Date.parse(at);
const UNCOUNTED = new Set(["snoozed", "released"]);
// In percent of the width: the least that a run and a wait have, and the most of times in which nothing happens.
const RUN = 2, WAIT = 0.5, IDLE = 30;

/**
 * [{kind, from, until, words, run}], without gaps; `kind` of a run is its outcome. Times in milliseconds. `pauses` are
 * those of the job's queue, the newest first.
 */
export function stretches(job, runs, now, pauses = []) {
  return whole(job, runs, now).flatMap((one) => (one.kind === "pending" ? withoutPauses(one, pauses, now) : [one]));
}

/** The waits for a worker in which the queue was not paused, and the pauses among them. */
function withoutPauses(wait, pauses, now) {
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

function whole(job, runs, now) {
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
  pending: "waiting for a worker",
};

/** As what it waits for its next run. */
function kindAfter(run) {
  if (!run) return "scheduled";
  if (run.ending === "snoozed") return "snoozed";
  return run.ending === "released" ? "pending" : "retrying";
}

/** From the end of one run to the begin of the next: until it was due, and then until a worker took it. */
function waits(job, from, until, before, last) {
  if (job.state === "paused" && last) return [{ kind: "paused", from, until, words: "paused" }];
  if (job.state === "waiting" && last) return [{ kind: "waiting", from, until, words: "waiting for other jobs" }];
  const kind = kindAfter(before);
  // When it was due is kept only of the newest: what lies between two older runs is of one kind.
  const known = last || (!before && job.runs <= 1);
  const due = Math.min(Math.max(known ? ms(job.run_at) : before ? until : from, from), until);
  return [
    { kind, from, until: due, words: WORDS[kind] },
    { kind: "pending", from: due, until, words: WORDS.pending },
  ].filter((one) => one.until > one.from);
}

/**
 * The same with `left` and `width` in percent: to scale, but none too narrow to be seen. What is still to come, and
 * the time between an end and a redrive, would leave no room for the rest: it is `cut` where it is too long.
 */
export function scaled(found) {
  const idle = (one) => one.toCome || one.kind === "ended";
  const busy = found.filter((one) => !idle(one)).reduce((sum, one) => sum + one.until - one.from, 0);
  const most = busy ? (busy * IDLE) / (100 - IDLE) / found.filter(idle).length : Infinity;
  const length = (one) => (idle(one) ? Math.min(one.until - one.from, most) : one.until - one.from);
  const runs = found.filter((one) => one.run).length;
  const least = (one) => (one.run ? Math.min(RUN, 60 / runs) : Math.min(WAIT, 15 / found.length));
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

/** [{left, at}]: where a time is written below, no two too near to each other. */
export function marks(drawn, apart = 14) {
  const ends = drawn.map((one) => ({ left: one.left, at: one.from, run: one.run }));
  const last = drawn.at(-1);
  const chosen = [ends[0], { left: last.left + last.width, at: last.until, end: true }];
  const free = (one) => chosen.every((other) => Math.abs(one.left - other.left) >= apart);
  for (const one of [...ends.filter((one) => one.run), ...ends]) if (free(one)) chosen.push(one);
  return chosen.sort((a, b) => a.left - b.left);
}
