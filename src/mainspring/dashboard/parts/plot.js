// The options of uPlot for a chart: colours, axes and cursor.
import uPlot from "../vendor/uplot.js";
import { now } from "../clock.js";
import { axisDuration, clockTime, duration } from "../format.js";

const DAY = 86400;
const COUNT_STEPS = [1, 2, 5].flatMap((n) => [...Array(12)].map((_, power) => n * 10 ** power)).sort((a, b) => a - b);
const DURATION_STEPS = [
  0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600,
  1200, 1800, 3600, 7200, 14400, 43200, DAY, 2 * DAY, 7 * DAY, 30 * DAY,
];
const DATE = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric" });
const date = (at) => DATE.format(new Date(at * 1000));
const clock = (at) => clockTime(at * 1000).slice(0, 5);

/** The values of colours. They are custom properties that depend on the theme, and a canvas needs their values. */
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

const translucent = (colour, share) => `color-mix(in srgb, ${colour} ${share}%, transparent)`;

/** The period of a point: "03:54 – 03:55", "Mon 16 03:00 – 04:00", "Mon 16 01:00 – Tue 17 01:00". */
export function periodText(times, n, step) {
  const [at, days] = [times[n], times.at(-1) - times[0] > DAY / 2];
  const named = (one) => (days ? `${date(one)} ${clock(one)}` : clock(one));
  if (!step) return days ? named(at) : clockTime(at * 1000);
  if (at + step > now() / 1000) return `${named(at)}, so far`;
  return `${named(at)} – ${date(at) === date(at + step) ? clock(at + step) : named(at + step)}`;
}

/** `latest.current` has the current properties of the chart: a uPlot object outlives one rendering of the page. */
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
    scales: { x: { range: () => latest.current.ends }, y: { range: (_, __, most) => [0, axisMax(most, seconds)] } },
    axes: [
      { ...axis, size: 22, space: 64, values: (chart, at) => at.map((one) => tick(one, latest.current.ends)) },
      { ...axis, size: (_, values) => 16 + 6.2 * Math.max(2, ...(values ?? []).map((one) => one.length)), space: 28,
        incrs: seconds ? DURATION_STEPS : COUNT_STEPS, values: (_, values) => values.map(write) },
    ],
    series: [{}, ...(stacked ? lines.reverse() : lines)],
    bands: stacked && !bars ? lines.slice(1).map((_, n) => ({ series: [n + 1, n + 2] })) : undefined,
    hooks: { setCursor: [(chart) => point(chart.cursor.idx ?? null)] },
  };
}

function axisMax(most, seconds) {
  return most > 0 ? most * 1.12 : seconds ? 1 : 4;
}

/** The label of an instant on the time axis. */
export function tick(at, [from, until]) {
  if (until - at < (until - from) / 30) return ""; // the label would be cut off
  const midnight = clock(at) === "00:00";
  if (until - from > 3 * DAY) return midnight ? date(at) : ""; // each day has one label
  return midnight && until - from > DAY / 4 ? date(at) : clock(at);
}

function line(one, colour, bars) {
  const points = { show: true, size: 4, fill: colour, filter: isolatedPoints };
  const drawn = { label: one.label, stroke: colour, width: bars ? 0 : 1.6, dash: one.dash, points };
  if (bars) return { ...drawn, fill: colour, points: { show: false }, paths: uPlot.paths.bars({ size: [0.8, 48, 1] }) };
  return { ...drawn, fill: one.area ? translucent(colour, 16) : undefined };
}

/** The values between two gaps: they are drawn as points, since they have no line. */
function isolatedPoints(chart, n) {
  const values = chart.data[n];
  const none = (at) => values[at] === null || values[at] === undefined;
  return values.map((_, at) => at).filter((at) => !none(at) && none(at - 1) && none(at + 1));
}
