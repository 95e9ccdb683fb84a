// A schedule in words: its next tick, and its policies.
import { useNow } from "../clock.js";
import { duration, local, plural } from "../format.js";
import { html } from "../html.js";
import { scheduleLink } from "../route.js";
import { Time } from "./time.js";

/** The next tick of a schedule, or what it waits for. */
export function NextTick({ row }) {
  const now = useNow();
  if (row.held_at) {
    const what = row.waits_on
      ? html`for <a class="within" href=${scheduleLink(row.waits_on)}>${row.waits_on}</a> to succeed`
      : "for its previous run to finish";
    return html`<span>waiting ${what}</span>
      <div class="muted">tick of <${Time} at=${row.held_at} /></div>`;
  }
  if (!row.next_run_at) {
    return html`<span class="muted">${row.status === "active" ? "when its run has finished" : "none"}</span>`;
  }
  if (row.status === "paused") return html`<span class="muted">none while paused</span>`;
  return html`${Date.parse(row.next_run_at) <= now ? "due now" : html`<${Time} at=${row.next_run_at} />`}
    <div class="muted">${local(row.next_run_at)}</div>`;
}

export const OVERLAP = {
  skip: "a tick is skipped while the previous run is running",
  queue: "one tick waits until the previous run has finished; further ticks are skipped",
  allow: "runs may overlap",
  cancel: "the previous run is cancelled, and the tick fires once it has ended",
};
export const CATCH_UP = {
  latest: "of the missed ticks, the newest one runs",
  skip: "missed ticks are skipped",
  all: "all missed ticks run, oldest first",
};

/** [[name, words], …] of the policies that differ from the default, and of overlap and catch-up. */
export function policies(spec) {
  const span = (value) => duration(Number(value));
  const old = spec.catch_up === "skip" ? "" : `, unless older than ${span(spec.catch_up_window)}`;
  const failures = spec.pause_after_failures;
  const rows = [
    ["Overlap", OVERLAP[spec.overlap]],
    ["Catch-up", `${CATCH_UP[spec.catch_up]}${old}; a tick less than ${span(spec.grace)} late is on time`],
    ["Interval", spec.after === "finish" && "counts from the end of the previous run"],
    ["Jitter", Number(spec.jitter) > 0 && `fires later by a fixed offset of its own, below ${span(spec.jitter)}`],
    ["Window", spec.window && windowWords(spec.window)],
    ["Excluded dates", spec.exclude.length && spec.exclude.join(", ")],
    ["Starts at", spec.start_at && html`<${Time} at=${spec.start_at} exact />`],
    ["Ends at", spec.end_at && html`<${Time} at=${spec.end_at} exact />`],
    ["Runs", spec.max_runs !== null && `ends after ${plural(spec.max_runs, "run")}`],
    ["First run", spec.run_on_start && "when it was created"],
    ["Failures", failures !== null && `pauses after ${plural(failures, "dead run")} in a row`],
    ["Depends on", spec.depends_on.length && html`${spec.depends_on.map(linked)}: a tick fires once they have
      succeeded since the previous tick`],
    ["Adapts", spec.adapt !== null
      && `the interval doubles, up to ${span(spec.adapt)}, while runs return the same result`],
    ["Spread", spec.spread && "placed where the fewest other ticks are"],
    ["Queue", spec.queue], ["Priority", spec.priority !== 0 && String(spec.priority)],
    ["Timeout", spec.timeout !== undefined && (spec.timeout === null ? "none" : span(spec.timeout))],
    ["Retries", spec.max_retries !== null && String(spec.max_retries)],
    ["Jobs expire", spec.expires !== null && `if not started ${span(spec.expires)} after their tick fired`],
    ["Tags", spec.tags.length && spec.tags.map((tag) => html`<span key=${tag} class="tag">${tag}</span> `)],
  ];
  return rows.filter(([, words]) => words);
}

const linked = (name, n) => html`${n > 0 && ", "}<a class="within" href=${scheduleLink(name)}>${name}</a>`;

function windowWords({ opens, closes, days, tz, outside }) {
  const on = days === null ? "" : ` on ${[days].flat().map((day) => DAY_NAMES[day] ?? day).join(", ")}`;
  const rest = outside === "move" ? "ticks outside are moved to its opening" : "ticks outside are skipped";
  return `${opens} to ${closes}${on}${tz ? `, ${tz}` : ""}; ${rest}`;
}

const DAY_NAMES = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
