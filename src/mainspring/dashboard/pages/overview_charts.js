// The charts of the overview: what runs, how long it takes, and what waits.
import { get } from "../api.js";
import { useNow } from "../clock.js";
import { plain } from "../exact.js";
import { count, duration, short } from "../format.js";
import { html, useMemo } from "../html.js";
import { useData } from "../live.js";
import { Chart } from "../parts/chart.js";
import { WORDS } from "../parts/windows.js";
import { useSession } from "../session.js";

const SECONDS = { "15m": 900, "1h": 3600, "6h": 21600, "24h": 86400, "7d": 604800 };
const STEPS = { "15m": [60, "minute"], "1h": [60, "minute"], "6h": [3600, "hour"], "24h": [3600, "hour"], "7d": [86400, "day"] };
// Samples of the depth are kept for four days.
const KEPT = { "7d": "4d" };
const mark = (value) => (value ? duration(value).replace(".0 ", " ") : "0");
const seconds = (at) => Date.parse(at) / 1000;

export function Charts({ stats, window }) {
  const session = useSession();
  const [step, word] = STEPS[window];
  const points = stats.series;
  const times = useMemo(() => points.map((one) => seconds(one.at)), [points]);
  const of = (name) => points.map((one) => one[name]);
  const nothing = `Nothing ran in the last ${WORDS[window]}.`;
  const shared = { times, step, sync: "overview", empty: nothing };
  return html`<div class="charts">
    <section class="card"><${Chart} ...${shared} title=${`Runs per ${word}`} bars stacked format=${count} axis=${short} series=${[
      { label: "completed", values: of("completed"), colour: "--state-completed", rest: count(stats.total.completed) },
      { label: "failed", values: of("failed"), colour: "--state-dead", rest: count(stats.total.failed) },
    ]} /></section>
    <section class="card"><${Chart} ...${shared} title="Run time" seconds format=${duration} axis=${mark} series=${[
      { label: "p95", values: of("p95"), colour: "--state-running", area: true, rest: duration(stats.total.p95) },
      { label: "p50", values: of("p50"), colour: "--state-scheduled", rest: duration(stats.total.p50) },
    ]} /></section>
    <section class="card"><${Chart} ...${shared} title="Wait to start" seconds format=${duration} axis=${mark} series=${[
      { label: "p95", values: of("wait_p95"), colour: "--state-retrying", area: true, rest: duration(stats.total.wait_p95) },
      { label: "p50", values: of("wait_p50"), colour: "--state-pending", rest: duration(stats.total.wait_p50) },
    ]} /></section>
    ${session.sees("queues") && html`<section class="card"><${Backlog} stats=${stats} window=${window} /></section>`}
  </div>`;
}

const LINES = [["pending", "due", "--state-scheduled", true], ["retrying", "retrying", "--state-retrying"], ["running", "running", "--state-running"]];

/** Samples of the past minutes, and the present, which comes with every look at the figures. */
function Backlog({ stats, window }) {
  const data = useData((signal) => get("depth", { window: KEPT[window] ?? window }, signal).then(plain), [window], { every: 30 });
  const now = Math.floor(useNow() / 2000) * 2;
  const past = data.value ?? { step: 60, items: [] };
  const points = useMemo(() => withGaps(past), [data.value]);
  const present = Object.fromEntries(LINES.map(([name]) => [name, stats.queues.reduce((sum, queue) => sum + queue[name], 0)]));
  const all = [...points, { at: now, ...present }];
  return html`<${Chart} title="Backlog" sync="overview" format=${count} axis=${short} from=${now - SECONDS[window]} until=${now}
    times=${all.map((one) => one.at)} empty=${`Nothing waits.`}
    series=${LINES.map(([name, label, colour, area]) => ({ label, colour, area, values: all.map((one) => one[name]) }))} />`;
}

/** Where nobody looked for more than two steps there is a gap. */
function withGaps({ step, items }) {
  const found = [];
  for (const { at, total } of items) {
    const time = seconds(at);
    if (found.length && time - found.at(-1).at > step * 2.5) found.push({ at: found.at(-1).at + step, pending: null, retrying: null, running: null });
    found.push({ at: time, ...total });
  }
  return found;
}
