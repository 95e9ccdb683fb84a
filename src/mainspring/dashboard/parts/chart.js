// Charts over time with lines, areas or bars, and a text alternative.
import { html, useEffect, useMemo, useRef, useState } from "../html.js";
import { local } from "../format.js";
import { onTheme } from "../theme.js";
import { periodText, options } from "./plot.js";
import uPlot from "../vendor/uplot.js";

/**
 * `times` are seconds. `series` is [{label, values, colour: "--state-completed", area, dash, rest}]; a null value is a
 * gap; `rest` replaces the last value in the legend while the pointer is elsewhere.
 * `format` formats a value, `axis` a label of the axis if it is to be shorter; with duration() the axis has time steps.
 * `step`: each time starts a period of this number of seconds. `from` and `until` are the ends of the axis; by default
 * those of the data. Charts with the same `sync` share the cursor. `empty` is shown if there are no values.
 */
export function Chart(props) {
  const { title, times, series, format = String, height = 150, stacked, bars, step = 0, empty, sync } = props;
  const place = useRef();
  const plot = useRef(null);
  const [theme, again] = useState(0);
  const [at, point] = useState(null);
  useEffect(() => onTheme(() => again((n) => n + 1)), []);
  const looks = series.map((one) => [one.label, one.colour, one.area, one.dash]);
  const shape = JSON.stringify([looks, stacked, bars, sync, height]);
  const key = JSON.stringify([times, series.map((one) => one.values), props.from, props.until]);
  const data = useMemo(() => plotData(times, series, stacked, step), [key, shape]);
  const latest = useRef({});
  latest.current = { ...props, ends: axisRange(props) };
  useEffect(() => {
    const home = place.current;
    const width = () => Math.max(160, home.clientWidth);
    plot.current = new uPlot(options(latest, { width: width(), height, point }), data, home);
    const watching = new ResizeObserver(() => plot.current?.setSize({ width: width(), height }));
    watching.observe(home);
    return () => (watching.disconnect(), plot.current.destroy(), (plot.current = null), point(null));
  }, [shape, theme]);
  const first = useRef(null);
  useEffect(() => {
    if (first.current === plot.current) plot.current.setData(data);
    first.current = plot.current;
  }, [data, theme]);
  const pointed = at !== null && at < times.length ? at : null;
  const nothing = series.every((one) => one.values.every((value) => !value));
  return html`<figure class="chart">
    <figcaption>
      <span class="chart-title">${title}${" "}
        <span class="chart-when">${pointed === null ? "" : periodText(times, pointed, step)}</span></span>
      <span class="legend">${series.map((one) => html`<span key=${one.label} class="nowrap">
        <i class="swatch" style=${{ background: `var(${one.colour})` }}></i>${" "}
        ${one.label} <b>${legendValue(one, pointed, format)}</b></span>`)}</span>
    </figcaption>
    <div class="plot" style=${{ height: `${height}px` }}>
      <div ref=${place} role="img" aria-label=${chartLabel(title, times, series, format)}></div>
      ${nothing && empty && html`<p class="chart-empty"><span>${empty}</span></p>`}
    </div>
  </figure>`;
}

/** The data for uPlot: the times, then the values of each series in drawing order; the highest stack first. */
function plotData(times, series, stacked, step) {
  const middles = step ? times.map((one) => one + step / 2) : times;
  return [middles, ...(stacked ? stackedValues(series).reverse() : series.map((one) => one.values))];
}

function stackedValues(series) {
  const sums = [];
  return series.map((one) => one.values.map((value, n) => (sums[n] = (sums[n] ?? 0) + (value ?? 0))));
}

function axisRange({ times, step = 0, from, until }) {
  const first = from ?? times[0] ?? 0;
  return [first, Math.max(first + 1, until ?? (times.at(-1) ?? 0) + step)];
}

function legendValue(one, n, format) {
  if (n === null && one.rest !== undefined) return one.rest;
  const value = n === null ? one.values.findLast((known) => known !== null && known !== undefined) : one.values[n];
  return value === null || value === undefined ? "–" : format(value);
}

function chartLabel(title, times, series, format) {
  if (!times.length) return `${title}: no figures yet`;
  const last = series.map((one) => `${one.label} ${legendValue(one, null, format)}`);
  return `${title} from ${local(times[0] * 1000)} to ${local(times.at(-1) * 1000)}: ${last.join(", ")}`;
}
