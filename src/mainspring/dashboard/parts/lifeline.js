// The timeline of a job, drawn: runs are solid and can be chosen, waits are thin, what is to come is hatched.
import { useNow } from "../clock.js";
import { both, clockTime, duration } from "../format.js";
import { html } from "../html.js";
import { Icon } from "./icons.js";
import { State } from "./state.js";
import { marks, scaled, stretches } from "./timeline.js";

export function Lifeline({ job, runs, pauses, chosen, onChoose }) {
  const now = useNow();
  const drawn = scaled(stretches(job, runs, now, pauses));
  if (!drawn.length) return null;
  const kinds = [...new Set(drawn.map((one) => one.kind))];
  return html`<div class=${`lifeline ${job.state === "running" ? "moves" : ""}`}>
    <ol class="lifeline-bar" aria-label="Waits and runs, to scale">
      ${drawn.map((one, n) => html`<li key=${one.run ? `run-${one.run}` : `wait-${n}`}
        style=${{ left: `${one.left}%`, width: `${one.width}%` }}>
        ${one.run
          ? html`<${Run} of=${one} chosen=${chosen === one.run} onChoose=${onChoose} />`
          : html`<${Wait} of=${one} />`}</li>`)}
      ${!job.finished_at
        && html`<li class="lifeline-now" aria-hidden="true" style=${{ left: `${present(drawn)}%` }}></li>`}
    </ol>
    <div class="lifeline-marks" aria-hidden="true">${marks(drawn).map((one, n) => html`<span key=${n}
      class=${one.end ? "end" : ""} style=${one.end ? { right: 0 } : { left: `${one.left}%` }}
      title=${both(one.at)}>
      ${n ? `+${duration((one.at - drawn[0].from) / 1000)}` : clockTime(one.at)}</span>`)}</div>
    <p class="lifeline-kinds">
      ${kinds.map((kind) => html`<${State} key=${kind} of=${kind} word=${WORDS[kind] ?? kind} />`)}
      ${drawn.some((one) => one.cut) && html`<span class="muted">hatched: longer than drawn</span>`}</p>
  </div>`;
}

const WORDS = {
  pending: "waiting for a worker", scheduled: "not due yet", retrying: "waiting for the next attempt",
  held: "queue paused", ended: "finished", earlier: "earlier runs",
};

const present = (drawn) => drawn.find((one) => one.toCome)?.left ?? 100;
const seconds = (one) => (one.until - one.from) / 1000;

function Run({ of: run, chosen, onChoose }) {
  const words = `Run ${run.run}: ${run.kind}, ${run.kind === "running" ? "for" : "took"}`;
  const length = duration(seconds(run));
  return html`<button type="button" class=${`lifeline-run state-${run.kind}`} aria-pressed=${chosen}
    title=${`${words} ${length}`}
    onClick=${() => onChoose(chosen ? null : run.run)}>
    <span class="unseen">${words}</span>
    <${Icon} name=${run.kind} size=${14} /> <span class="lifeline-length">${length}</span></button>`;
}

function Wait({ of: wait }) {
  const length = duration(seconds(wait));
  const words = `${wait.toCome ? "still " : ""}${wait.words}: ${length}`;
  const look = wait.toCome || wait.cut ? "hatched" : "";
  return html`<span class=${`lifeline-wait state-${wait.kind} ${look}`} title=${words}>
    <span class="lifeline-words">${words}</span>
    <span class="lifeline-brief" aria-hidden="true">${length}</span></span>`;
}
