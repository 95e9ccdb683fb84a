// The timeline of a job: solid bars for runs (clickable), thin bars for waits, hatched bars for the future.
import { useNow } from "../clock.js";
import { localAndUtc, clockTime, duration } from "../format.js";
import { html } from "../html.js";
import { Icon } from "./icons.js";
import { State } from "./state.js";
import { timeLabels, scaleSegments, timelineSegments } from "./timeline_layout.js";

export function JobTimeline({ job, runs, pauses, flow, chosen, onChoose }) {
  const now = useNow();
  const waits = flow ? "waiting for its steps" : "asleep, or waiting for a signal";
  const drawn = scaleSegments(timelineSegments(job, runs, now, pauses));
  if (!drawn.length) return null;
  const kinds = [...new Set(drawn.map((one) => one.kind))];
  return html`<div class=${`job-timeline ${job.state === "running" ? "moves" : ""}`}>
    <ol class="job-timeline-bar" aria-label="Waits and runs, to scale">
      ${drawn.map((one, n) => html`<li key=${one.run ? `run-${one.run}` : `wait-${n}`}
        style=${{ left: `${one.left}%`, width: `${one.width}%` }}>
        ${one.run
          ? html`<${Run} of=${one} chosen=${chosen === one.run} onChoose=${onChoose} />`
          : html`<${Wait} of=${one.kind === "waiting" ? { ...one, words: waits } : one} />`}</li>`)}
      ${!job.finished_at
        && html`<li class="job-timeline-now" aria-hidden="true" style=${{ left: `${nowPosition(drawn)}%` }}></li>`}
    </ol>
    <div class="job-timeline-marks" aria-hidden="true">${timeLabels(drawn).map((one, n) => html`<span key=${n}
      class=${one.end ? "end" : ""} style=${one.end ? { right: 0 } : { left: `${one.left}%` }}
      title=${localAndUtc(one.at)}>
      ${n ? `+${duration((one.at - drawn[0].from) / 1000)}` : clockTime(one.at)}</span>`)}</div>
    <p class="job-timeline-kinds">
      ${kinds.map((kind) => html`<${State} key=${kind} of=${kind} word=${WORDS[kind] ?? kind} />`)}
      ${drawn.some((one) => one.cut) && html`<span class="muted">hatched: longer than drawn</span>`}</p>
  </div>`;
}

const WORDS = {
  pending: "waiting for a worker", scheduled: "not due yet", retrying: "waiting for the next attempt",
  held: "queue paused", ended: "finished", earlier: "earlier runs",
};

const nowPosition = (drawn) => drawn.find((one) => one.toCome)?.left ?? 100;
const seconds = (one) => (one.until - one.from) / 1000;

function Run({ of: run, chosen, onChoose }) {
  const words = `Run ${run.run}: ${run.kind}, ${run.kind === "running" ? "for" : "took"}`;
  const length = duration(seconds(run));
  return html`<button type="button" class=${`job-timeline-run state-${run.kind}`} aria-pressed=${chosen}
    title=${`${words} ${length}`}
    onClick=${() => onChoose(chosen ? null : run.run)}>
    <span class="unseen">${words}</span>
    <${Icon} name=${run.kind} size=${14} /> <span class="job-timeline-length">${length}</span></button>`;
}

function Wait({ of: wait }) {
  const length = duration(seconds(wait));
  const words = `${wait.toCome ? "still " : ""}${wait.words}: ${length}`;
  const look = wait.toCome || wait.cut ? "hatched" : "";
  return html`<span class=${`job-timeline-wait state-${wait.kind} ${look}`} title=${words}>
    <span class="job-timeline-words">${words}</span>
    <span class="job-timeline-brief" aria-hidden="true">${length}</span></span>`;
}
