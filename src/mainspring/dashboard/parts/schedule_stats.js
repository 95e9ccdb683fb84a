// Statistics of a schedule's runs: success, durations, lateness, runs over time, and errors.
import { get, segment } from "../api.js";
import { count, duration, percent, plural, shortCount } from "../format.js";
import { html, useMemo } from "../html.js";
import { useData } from "../live.js";
import { link, scheduleLink } from "../route.js";
import { Chart } from "./chart.js";
import { Columns } from "./columns.js";
import { Loaded } from "./page.js";
import { Tiles } from "./tiles.js";
import { windowText, useWindow, WindowChoice } from "./stats_window.js";

const WINDOWS = ["1h", "24h", "3d", "7d"];
const MAX_ERRORS = 5; // kinds of failure

/** Reloaded when `version` changes. */
export function ScheduleStats({ name, version }) {
  const window = useWindow("7d", WINDOWS);
  const load = (signal) => get(`schedules/${segment(name)}/stats`, { window }, signal);
  const data = useData(load, [name, window, version]);
  return html`<section class="stack schedule-stats" aria-label="Runs">
    <div class="row history-head"><h2>Runs</h2>
      <${WindowChoice} path=${scheduleLink(name)} value=${window} of=${WINDOWS} /></div>
    <${Loaded} data=${data}>${(stats) => html`<${Body} stats=${stats} name=${name} window=${window} />`}<//>
  </section>`;
}

function Body({ stats, name, window }) {
  const { runs, sample } = stats;
  if (!runs.runs) return html`<p class="muted">No run of its kept jobs has ended in ${windowText(window)}.</p>`;
  return html`<${Tiles} of=${[
      ["Runs succeeded", percent(runs.success_rate)], ["Run time p50", duration(runs.p50)], ["p95", duration(runs.p95)],
      ["p99", duration(runs.p99)], ["Wait p95", duration(runs.wait_p95)],
      ["Late to start p95", stats.late_p95 === null ? "–" : duration(stats.late_p95)],
    ]} />
    <section class="card"><${RunChart} stats=${stats} /></section>
    ${stats.errors.length > 0 && html`<${Errors} errors=${stats.errors} name=${name} />`}
    <p class="muted small">${plural(sample.runs, "run")} of ${plural(sample.ticks, "tick")} that fired in${" "}
      ${windowText(window)}${sample.complete ? "" : "; earlier ones in it are not counted"}. A job that is retried has
      several runs. Late to start: from a tick’s instant to the start of its job.</p>`;
}

function RunChart({ stats: { series: points, runs } }) {
  const times = useMemo(() => points.map((one) => Date.parse(one.at) / 1000), [points]);
  const of = (name) => points.map((one) => one[name]);
  const step = times.length > 1 ? times[1] - times[0] : 60;
  const part = { label: "partial", values: of("partial"), colour: "--state-retrying", rest: count(runs.partial) };
  return html`<${Chart} title="Runs" times=${times} step=${step} bars stacked format=${count} axis=${shortCount}
    series=${[
    { label: "completed", values: of("completed"), colour: "--chart-good", rest: count(runs.completed) },
    ...(runs.partial ? [part] : []),
    { label: "failed", values: of("failed"), colour: "--chart-bad", rest: count(runs.failed) },
  ]} />`;
}

function Errors({ errors, name }) {
  return html`<div class="table"><table><${Columns} of=${["Error", "#Runs"]} />
    <tbody>${errors.slice(0, MAX_ERRORS).map(({ error, message, count: runs }) => html`<tr key=${error}>
      <td data-label="Error"><a href=${link("jobs", { schedule: name, error })}>${message || error}</a></td>
      <td data-label="Runs" class="number">${count(runs)}</td></tr>`)}</tbody></table></div>`;
}
