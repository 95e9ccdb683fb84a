// The progress of a run, and the estimated time left.
import { useNow } from "../clock.js";
import { count, duration, percent } from "../format.js";
import { html } from "../html.js";
import { Time } from "./time.js";

// A run that reports progress may hang if it has not reported for this time.
const SILENT_SECONDS = 60;

export function JobProgress({ job, progress }) {
  const now = useNow();
  const done = Number(progress.done);
  const total = progress.total === undefined || progress.total === null ? null : Number(progress.total);
  const live = job.state === "running" && progress.run === job.runs;
  const share = total > 0 ? Math.min(1, Math.max(0, done / total)) : null;
  const figure = total === null ? count(done) : `${count(done)} of ${count(total)}`;
  return html`<div class="job-progress">
    <div class="row"><b>${share === null ? figure : percent(share)}</b>
      ${share !== null && html`<span class="muted">${figure}</span>`}<span class="note">${progress.note}</span>
      <span class="left">
        ${live ? timeLeft(job, progress, share, now) : progress.run !== job.runs && html`of run ${progress.run}`}
      </span></div>
    <progress value=${share ?? undefined} max="1"
      aria-label=${`Progress of run ${progress.run}`}>${percent(share)}</progress>
    ${live && now - Date.parse(progress.at) > SILENT_SECONDS * 1000
      && html`<p class="silent">Its last progress report was <${Time} at=${progress.at} />: it may hang.</p>`}
  </div>`;
}

function timeLeft(job, progress, share, now) {
  const reported = Date.parse(progress.at), took = reported - Date.parse(job.started_at);
  if (!share || share === 1 || took < 500) return null;
  const rest = (took / share - took - (now - reported)) / 1000;
  return html`about ${duration(Math.max(1, Math.round(rest)))} left`;
}
