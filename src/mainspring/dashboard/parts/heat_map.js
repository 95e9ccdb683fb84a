// A heat map of the coming week's ticks, by day and hour in the viewer's time zone.
import { count, local, plural, shortCount, zone } from "../format.js";
import { html } from "../html.js";

const HOUR_MS = 3_600_000;
const MIN_TINT_PERCENT = 6, MAX_TINT_PERCENT = 52; // of the accent colour: text stays readable on all tints
const DAY_NAME = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short" });
const HOURS = Array.from({ length: 24 }, (_, hour) => hour);
const twoDigits = (n) => String(n).padStart(2, "0");

/** [{key, day, cells: 24 × ({at, count} or null)}]. A repeated hour (clock change) is one cell, a skipped one null. */
function rowsByDay(since, hours) {
  const found = new Map();
  hours.forEach((ticks, n) => {
    const at = new Date(since + n * HOUR_MS);
    const key = local(at).slice(0, 10);
    if (!found.has(key)) found.set(key, { key, day: DAY_NAME.format(at), cells: HOURS.map(() => null) });
    const cells = found.get(key).cells;
    const there = cells[at.getHours()];
    cells[at.getHours()] = { at: there?.at ?? +at, count: (there?.count ?? 0) + ticks };
  });
  return [...found.values()];
}

/**
 * The intensity of an hour, from 0 to 1: its ticks relative to the busiest hour. The scale starts at zero and is
 * continuous, so that hours with similar numbers look alike.
 */
export const intensity = (ticks, most) => (most ? ticks / most : 0);

/** Percent of the accent colour in a cell's background. An hour with ticks always differs from one without. */
const tint = (ticks, most) =>
  (ticks ? MIN_TINT_PERCENT + (MAX_TINT_PERCENT - MIN_TINT_PERCENT) * intensity(ticks, most) : 0);

/** `load` is the response of scheduler/distribution?days=7. */
export function HeatMap({ load }) {
  const since = Date.parse(load.since);
  const most = Math.max(...load.hours);
  return html`<div class="heat"><table>
    <caption class="unseen">Ticks in each hour of the coming week, in ${zone}</caption>
    <thead><tr><th scope="col"><span class="unseen">Day</span></th>
      ${HOURS.map((hour) => html`<th key=${hour} scope="col">${twoDigits(hour)}</th>`)}</tr></thead>
    <tbody>${rowsByDay(since, load.hours).map(({ key, day, cells }) => html`<tr key=${key}><th scope="row">${day}</th>
      ${cells.map((cell, hour) => html`<td key=${hour}
        class=${cell ? "heat-cell" : ""} style=${cell && { "--tint": `${tint(cell.count, most).toFixed(1)}%` }}
        title=${cell ? cellTitle(cell) : undefined}><span>${cell ? shortCount(cell.count) : ""}</span></td>`)}</tr>`)}
    </tbody></table></div>
    ${most > 0 && html`<p class="heat-legend muted">Ticks per hour: 0 <i aria-hidden="true"
      style=${{ "--from": `${MIN_TINT_PERCENT}%`, "--to": `${MAX_TINT_PERCENT}%` }}></i> ${shortCount(most)}</p>`}
    <p class="muted">${summary(load, most)}</p>`;
}

const cellTitle = ({ at, count: ticks }) =>
  `${plural(ticks, "tick")} from ${local(at).slice(0, 16)} to ${local(at + HOUR_MS).slice(11, 16)}`;

function summary(load, most) {
  const all = load.hours.reduce((sum, one) => sum + one, 0);
  if (!all) return "No ticks in the coming week.";
  const busiest = Date.parse(load.since) + load.hours.indexOf(most) * HOUR_MS;
  const peak = `The busiest minute is ${local(load.peak.at).slice(0, 16)} with ${plural(load.peak.count, "tick")}`;
  const hour = `the busiest hour starts at ${local(busiest).slice(0, 16)} with ${count(most)}`;
  const often = load.unseen && plural(load.unseen, "schedule ticks", "schedules tick");
  const unseen = often ? ` ${often} too often to be counted in full.` : "";
  const sum = `${plural(all, "tick")} of ${plural(load.schedules, "schedule")} in the coming week.`;
  return `${sum} ${peak}; ${hour}. Times are in ${zone}.${unseen}`;
}
