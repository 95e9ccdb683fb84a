// The key numbers at the top of the overview.
import { count, duration, percent, rate, shortCount } from "../format.js";
import { html } from "../html.js";
import { Icon } from "../parts/icons.js";
import { MEANING } from "../parts/state.js";
import { windowText } from "../parts/stats_window.js";
import { link } from "../route.js";

const NOW = { running: "Running", pending: "Pending", scheduled: "Scheduled", retrying: "Retrying", dead: "Dead" };

const BY_MINUTE = ["15m", "1h"]; // windows that show the rate of the last minutes

export function Figures({ stats, window }) {
  const { total } = stats;
  const within = `of ${windowText(window)}`;
  const wait = duration(total.wait_p50);
  const now = BY_MINUTE.includes(window);
  return html`<div class="overview-figures">
    <dl aria-label="Jobs now">${Object.entries(NOW).map(([state, words]) => html`
      <${Jobs} key=${state} state=${state} words=${words} n=${stats[state]} />`)}</dl>
    <dl aria-label=${`Runs ${within}`}>
      <${Figure} words="Runs per minute" value=${rate(stats.per_minute ?? 0)} more=${now ? "last 5 min" : ""}
        title=${`${now ? "In the last 5 minutes; " : ""}${count(total.runs)} runs ${within}`} />
      <${Figure} words="Success" value=${percent(total.success_rate)} kind=${successStyle(total)}
        title=${`${count(total.completed)} completed, ${count(total.partial)} partial, ${count(total.failed)} failed,
          ${within}`} />
      <${Figure} words="Run time p95" value=${duration(total.p95)}
        title=${`95 % of the runs ${within} took no longer; half of them took up to ${duration(total.p50)}`} />
      <${Figure} words="Wait p95" value=${duration(total.wait_p95)}
        title=${`95 % of the runs ${within} started within this time after they were due;
          half of them within ${wait}`} />
    </dl>
  </div>`;
}

function Jobs({ state, words, n }) {
  const some = n > 0 && ["dead", "retrying", "running"].includes(state);
  return html`<div><dt class=${`state ${some ? `state-${state}` : ""}`}><${Icon} name=${state} />${words}</dt>
    <dd><a class="overview-figure" href=${state === "dead" ? "dead" : link("jobs", { state })}
      title=${`${count(n)} ${MEANING[state]}`} aria-label=${`${count(n)} ${words.toLowerCase()}: see these jobs`}>
      ${n < 100_000 ? count(n) : shortCount(n)}</a></dd></div>`;
}

function Figure({ words, value, title, more, kind = "" }) {
  return html`<div title=${title}><dt class="muted">${words}</dt>
    <dd class=${`overview-figure ${kind}`}>${value}${more && html` <small class="muted">${more}</small>`}</dd></div>`;
}

function successStyle({ success_rate: share }) {
  return share === null || share >= 0.95 ? "" : share >= 0.75 ? "warn" : "bad";
}
