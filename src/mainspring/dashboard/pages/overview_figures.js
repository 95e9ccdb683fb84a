// The figures at the top of the overview.
import { now } from "../clock.js";
import { count, duration, percent, rate, short } from "../format.js";
import { html } from "../html.js";
import { Icon } from "../parts/icons.js";
import { MEANING } from "../parts/state.js";
import { lately } from "../parts/window.js";
import { link } from "../route.js";

const NOW = { running: "Running", pending: "Pending", scheduled: "Scheduled", retrying: "Retrying", dead: "Dead" };

export function Figures({ stats, window }) {
  const { total } = stats;
  const within = `of ${lately(window)}`;
  const wait = duration(total.wait_p50);
  return html`<div class="overview-figures">
    <dl aria-label="Jobs now">${Object.entries(NOW).map(([state, words]) => html`
      <${Jobs} key=${state} state=${state} words=${words} n=${stats[state]} />`)}</dl>
    <dl aria-label=${`Runs ${within}`}>
      <${Figure} words="Runs per minute" ...${pace(stats, within)} />
      <${Figure} words="Success" value=${percent(total.success_rate)} kind=${mood(total)}
        title=${`${count(total.completed)} completed, ${count(total.partial)} partial, ${count(total.failed)} failed,
          ${within}`} />
      <${Figure} words="Run time p95" value=${duration(total.p95)}
        title=${`19 of 20 runs ${within} were done in this time; half of them in ${duration(total.p50)}`} />
      <${Figure} words="Wait p95" value=${duration(total.wait_p95)}
        title=${`19 of 20 runs ${within} began so soon after they were due; half of them in ${wait}`} />
    </dl>
  </div>`;
}

function Jobs({ state, words, n }) {
  const some = n > 0 && ["dead", "retrying", "running"].includes(state);
  return html`<div><dt class=${`state ${some ? `state-${state}` : ""}`}><${Icon} name=${state} />${words}</dt>
    <dd><a class="overview-figure" href=${state === "dead" ? "dead" : link("jobs", { state })}
      title=${`${count(n)} ${MEANING[state]}`} aria-label=${`${count(n)} ${words.toLowerCase()}: see these jobs`}>
      ${n < 100_000 ? count(n) : short(n)}</a></dd></div>`;
}

function Figure({ words, value, title, kind = "" }) {
  return html`<div title=${title}><dt class="muted">${words}</dt>
    <dd class=${`overview-figure ${kind}`}>${value}</dd></div>`;
}

const runs = (points) => points.reduce((sum, one) => sum + one.completed + one.partial + one.failed, 0);

/** What goes on now, by the last whole minutes where the series has them; else since the first run of the window. */
function pace({ series, total }, within) {
  const step = series.length > 1 ? (Date.parse(series[1].at) - Date.parse(series[0].at)) / 60_000 : 1;
  const whole = series.slice(-6, -1);
  const first = series.findIndex((one) => one.completed + one.partial + one.failed);
  const minutes = first < 0 ? 1 : Math.max(1, (now() - Date.parse(series[first].at)) / 60_000);
  const title = `${count(total.runs)} runs ${within}`;
  if (step > 1 || !runs(whole)) return { value: rate(runs(series) / minutes), title };
  return { value: rate(runs(whole) / Math.min(whole.length, minutes)), title: `in the last 5 minutes; ${title}` };
}

function mood({ success_rate: share }) {
  return share === null || share >= 0.95 ? "" : share >= 0.75 ? "warn" : "bad";
}
