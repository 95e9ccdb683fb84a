// How uPlot draws a chart: its colours, its axes and what is pointed at.
import uPlot from "../vendor/uplot.js";
import { now } from "../clock.js";
import { axisDuration, clockTime, duration } from "../format.js";

const DAY = 86400;
const WHOLE = [1, 2, 5].flatMap((n) => [...Array(12)].map((_, power) => n * 10 ** power)).sort((a, b) => a - b);
const SPANS = [
  0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600,
  1200, 1800, 3600, 7200, 14400, 43200, DAY, 2 * DAY, 7 * DAY, 30 * DAY,
];
const DATE = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric" });
const date = (at) => DATE.format(new Date(at * 1000));
const clock = (at) => clockTime(at * 1000).slice(0, 5);

/** The colours of the page are custom properties that depend on the theme: a canvas needs their values. */
function palette(names) {
  const probe = document.createElement("i");
  document.body.append(probe);
  const found = Object.fromEntries(names.map((name) => {
    probe.style.color = `var(${name})`;
    return [name, getComputedStyle(probe).color];
  }));
  probe.remove();
  return found;
}

const faint = (colour, share) => `color-mix(in srgb, ${colour} ${share}%, transparent)`;

/** When a point was: "03:54 – 03:55", "Mon 16 03:00 – 04:00", "Mon 16 01:00 – Tue 17 01:00". */
export function moment(times, n, step) {
  const [at, days] = [times[n], times.at(-1) - times[0] > DAY / 2];
  const named = (one) => (days ? `${date(one)} ${clock(one)}` : clock(one));
  if (!step) return days ? named(at) : clockTime(at * 1000);
  if (at + step > now() / 1000) return `${named(at)}, so far`;
  return `${named(at)} – ${date(at) === date(at + step) ? clock(at + step) : named(at + step)}`;
}

/** `latest` holds the chart's properties as they are now: uPlot lives longer than one drawing of the page. */
export function options(latest, { width, height, point }) {
  const { series, stacked, bars, sync, format } = latest.current;
  const seconds = format === duration;
  const colours = palette(["--muted", "--line", ...series.map((one) => one.colour)]);
  const grid = { stroke: colours["--line"], width: 1 };
  const axis = { stroke: colours["--muted"], grid, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  const words = (value) => (seconds ? axisDuration : latest.current.axis ?? latest.current.format ?? String)(value);
  const write = (value) => (value ? words(value) : "0");
  const lines = series.map((one) => line(one, colours[one.colour], bars));
  return {
    width, height, legend: { show: false }, padding: [8, 6, 0, 0],
    cursor: {
      y: false, points: { show: !bars && !stacked, size: 6 }, drag: { x: false, y: false },
      sync: sync ? { key: sync, setSeries: false } : undefined,
    },
    scales: { x: { range: () => latest.current.ends }, y: { range: (_, __, most) => [0, top(most, seconds)] } },
    axes: [
      { ...axis, size: 22, space: 64, values: (chart, at) => at.map((one) => tick(one, latest.current.ends)) },
      { ...axis, size: (_, values) => 16 + 6.2 * Math.max(2, ...(values ?? []).map((one) => one.length)), space: 28,
        incrs: seconds ? SPANS : WHOLE, values: (_, values) => values.map(write) },
    ],
    series: [{}, ...(stacked ? lines.reverse() : lines)],
    bands: stacked && !bars ? lines.slice(1).map((_, n) => ({ series: [n + 1, n + 2] })) : undefined,
    hooks: { setCursor: [(chart) => point(chart.cursor.idx ?? null)] },
  };
}

function top(most, seconds) {
  return most > 0 ? most * 1.12 : seconds ? 1 : 4;
}

/** What stands below an instant of the axis. */
export function tick(at, [from, until]) {
  if (until - at < (until - from) / 30) return ""; // its end would be cut off
  const midnight = clock(at) === "00:00";
  if (until - from > 3 * DAY) return midnight ? date(at) : ""; // no day is named twice
  return midnight && until - from > DAY / 4 ? date(at) : clock(at);
}

function line(one, colour, bars) {
  const points = { show: true, size: 4, fill: colour, filter: alone };
  const drawn = { label: one.label, stroke: colour, width: bars ? 0 : 1.6, dash: one.dash, points };
  if (bars) return { ...drawn, fill: colour, points: { show: false }, paths: uPlot.paths.bars({ size: [0.8, 48, 1] }) };
  return { ...drawn, fill: one.area ? faint(colour, 16) : undefined };
}

/** A value between two gaps has no line to be seen by. */
function alone(chart, n) {
  const values = chart.data[n];
  const none = (at) => values[at] === null || values[at] === undefined;
  return values.map((_, at) => at).filter((at) => !none(at) && none(at - 1) && none(at + 1));
}
