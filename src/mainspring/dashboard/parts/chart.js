// Lines and areas over time, drawn by uPlot in the colours of the page; and the same figures in words.
import { html, useEffect, useMemo, useRef, useState } from "../html.js";
import { onTheme } from "../theme.js";
import uPlot from "../vendor/uplot.js";
import { clockTime, local } from "../format.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A CSS colour with an alpha, whatever its notation. */
const faint = (name) => `color-mix(in srgb, ${colour(name)} 18%, transparent)`;

/**
 * `times` in seconds, `series`: [{label, values, colour: "--state-completed", area, dash}]; `format` writes a value.
 * `title` names it; what is null is a gap.
 */
export function Chart({ title, times, series, format = String, height = 150, stacked = false }) {
  const place = useRef();
  const plot = useRef(null);
  const [theme, again] = useState(0);
  const [at, point] = useState(null);
  useEffect(() => onTheme(() => again((n) => n + 1)), []);
  const shape = series.map((one) => [one.label, one.colour, one.area, one.dash].join()).join(";");
  const data = useMemo(() => [times, ...(stacked ? piled(series) : series.map((one) => one.values))], [times, series]);
  useEffect(() => {
    const width = () => Math.max(200, place.current.clientWidth);
    plot.current = new uPlot(options(series, { width: width(), height, format, point }), data, place.current);
    const watching = new ResizeObserver(() => plot.current?.setSize({ width: width(), height }));
    watching.observe(place.current);
    return () => (watching.disconnect(), plot.current.destroy(), (plot.current = null));
  }, [shape, theme, height]);
  useEffect(() => plot.current?.setData(data), [data]);
  const n = at ?? times.length - 1;
  return html`<figure class="chart">
    <figcaption><span class="chart-title">${title}</span>
      <span class="legend">${series.map((one) => html`<span key=${one.label}><i class="swatch" style=${{ background: `var(${one.colour})` }}></i>
        ${one.label} <b>${one.values[n] === null || one.values[n] === undefined ? "–" : format(one.values[n])}</b></span>`)}
        ${at !== null && html`<span class="muted">${clockTime(times[at] * 1000)}</span>`}</span>
    </figcaption>
    <div ref=${place} role="img" aria-label=${inWords(title, times, series, format)}></div>
  </figure>`;
}

function piled(series) {
  const sums = [];
  return series.map((one) => one.values.map((value, n) => (sums[n] = (sums[n] ?? 0) + (value ?? 0))));
}

function inWords(title, times, series, format) {
  if (!times.length) return `${title}: no figures yet`;
  const last = series.map((one) => `${one.label} ${one.values.at(-1) === null ? "none" : format(one.values.at(-1))}`);
  return `${title} from ${local(times[0] * 1000)} to ${local(times.at(-1) * 1000)}; at the end: ${last.join(", ")}`;
}

function options(series, { width, height, format, point }) {
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: `11px ${colour("--font")}` };
  const lines = series.map((one) => ({
    label: one.label, stroke: colour(one.colour), width: 1.5, dash: one.dash, points: { show: false },
    fill: one.area ? faint(one.colour) : undefined,
  }));
  return {
    width, height, legend: { show: false }, cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
    scales: { y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] } },
    axes: [
      { ...axis, size: 24, space: 70, values: (_, at) => at.map((one) => clockTime(one * 1000).slice(0, 5)) },
      { ...axis, size: 52, space: 32, values: (_, values) => values.map((one) => format(one)) },
    ],
    series: [{}, ...lines],
    hooks: { setCursor: [(chart) => point(chart.cursor.idx ?? null)] },
  };
}
