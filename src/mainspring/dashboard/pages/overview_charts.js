// The charts of the overview and of a queue: runs, run time, wait, and backlog.
import { now } from "../clock.js";
import { count, duration, shortCount } from "../format.js";
import { html, useMemo } from "../html.js";
import { useData } from "../live.js";
import { Chart } from "../parts/chart.js";
import { depthsOf, loadDepth } from "../parts/queue_depth.js";
import { windowText, WINDOWS } from "../parts/stats_window.js";
import { useSession } from "../session.js";

const [MINUTE, HOUR, DAY] = [[60, "minute"], [3600, "hour"], [86400, "day"]];
const STEPS = { "15m": MINUTE, "1h": MINUTE, "6h": HOUR, "24h": HOUR, "3d": HOUR, "7d": DAY };
// Queue depths are stored for four days.
const DEPTH_WINDOW = { "7d": "4d" };
const seconds = (at) => Date.parse(at) / 1000;

/** `queue`: only the runs and jobs of this queue. */
export function Charts({ stats, window, queue }) {
  const session = useSession();
  const [step, word] = STEPS[window];
  const { series: points, total } = stats;
  const times = useMemo(() => points.map((one) => seconds(one.at)), [points]);
  const of = (name) => points.map((one) => one[name]);
  const rest = (one) => one.runs - one.completed - one.partial - one.failed;
  const others = points.map(rest);
  const other = rest(total);
  const shared = { times, step, sync: "overview", empty: `Nothing ran in ${windowText(window)}.` };
  return html`<div class="overview-charts">
    <section class="card"><${Chart} ...${shared} title=${`Runs per ${word}`} bars stacked
      format=${count} axis=${shortCount} series=${[
        { label: "completed", values: of("completed"), colour: "--chart-good", rest: count(total.completed) },
        ...(total.partial
          ? [{ label: "partial", values: of("partial"), colour: "--state-retrying", rest: count(total.partial) }] : []),
        { label: "failed", values: of("failed"), colour: "--chart-bad", rest: count(total.failed) },
        ...(other > 0 ? [{ label: "cancelled", values: others, colour: "--state-cancelled", rest: count(other) }] : []),
      ]} /></section>
    <section class="card"><${Chart} ...${shared} title="Run time" format=${duration} series=${[
      { label: "p95", values: of("p95"), colour: "--state-running", area: true, rest: duration(total.p95) },
      { label: "p50", values: of("p50"), colour: "--state-scheduled", rest: duration(total.p50) },
    ]} /></section>
    <section class="card"><${Chart} ...${shared} title="Wait to start" format=${duration} series=${[
      { label: "p95", values: of("wait_p95"), colour: "--state-retrying", area: true, rest: duration(total.wait_p95) },
      { label: "p50", values: of("wait_p50"), colour: "--state-pending", rest: duration(total.wait_p50) },
    ]} /></section>
    ${session.sees("queues") && html`<section class="card">
      <${Backlog} stats=${stats} window=${window} queue=${queue} /></section>`}
  </div>`;
}

const LINES = {
  pending: { label: "pending", colour: "--state-scheduled", area: true },
  retrying: { label: "retrying", colour: "--state-retrying" },
  running: { label: "running", colour: "--state-running" },
};

/** The stored depths, and the current one from the statistics. */
function Backlog({ stats, window, queue }) {
  const load = (signal) => loadDepth({ window: DEPTH_WINDOW[window] ?? window, queue }, signal);
  const { value: past = [] } = useData(load, [window, queue], { every: 30 });
  const at = useMemo(() => now() / 1000, [stats]);
  const selected = stats.queues.filter((one) => queue === undefined || one.name === queue);
  const values = (name) => [...depthsOf(past, name), selected.reduce((sum, one) => sum + one[name], 0)];
  const series = Object.entries(LINES).map(([name, look]) => ({ ...look, values: values(name) }));
  return html`<${Chart} title="Backlog" sync="overview" format=${count} axis=${shortCount}
    from=${at - WINDOWS[window][1]} until=${at} times=${[...past.map((one) => one.at), at]}
    empty="No job was waiting." series=${series} />`;
}
