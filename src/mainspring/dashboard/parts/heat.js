// The coming week's load: ticks by day and hour of the viewer's zone, as a table that is coloured.
import { count, local, plural, short, zone } from "../format.js";
import { html } from "../html.js";

const HOUR = 3_600_000;
const LIGHTEST = 6, DARKEST = 52; // percent of the accent: text stays readable on all of them
const DAY_NAME = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short" });
const HOURS = Array.from({ length: 24 }, (_, hour) => hour);
const two = (n) => String(n).padStart(2, "0");

/** [{key, day, cells: 24 × ({at, count} or null)}]: an hour that comes twice is one cell, one left out is none. */
function days(since, hours) {
  const found = new Map();
  hours.forEach((ticks, n) => {
    const at = new Date(since + n * HOUR);
    const key = local(at).slice(0, 10);
    if (!found.has(key)) found.set(key, { key, day: DAY_NAME.format(at), cells: HOURS.map(() => null) });
    const cells = found.get(key).cells;
    const there = cells[at.getHours()];
    cells[at.getHours()] = { at: there?.at ?? +at, count: (there?.count ?? 0) + ticks };
  });
  return [...found.values()];
}

/**
 * The colour of an hour, from 0 to 1: its share of the fullest hour. The scale begins at zero and has no steps, so that
 * hours that hardly differ look alike.
 */
export const intensity = (ticks, most) => (most ? ticks / most : 0);

/** Percent of the accent in a cell's background; an hour with ticks is never as pale as one without. */
const tint = (ticks, most) => (ticks ? LIGHTEST + (DARKEST - LIGHTEST) * intensity(ticks, most) : 0);

/** `load` is what the API answers to scheduler/distribution?days=7. */
export function Heat({ load }) {
  const since = Date.parse(load.since);
  const most = Math.max(...load.hours);
  return html`<div class="heat"><table>
    <caption class="unseen">Ticks in each hour of the coming week, in ${zone}</caption>
    <thead><tr><th scope="col"><span class="unseen">Day</span></th>
      ${HOURS.map((hour) => html`<th key=${hour} scope="col">${two(hour)}</th>`)}</tr></thead>
    <tbody>${days(since, load.hours).map(({ key, day, cells }) => html`<tr key=${key}><th scope="row">${day}</th>
      ${cells.map((cell, hour) => html`<td key=${hour}
        class=${cell ? "heat-cell" : ""} style=${cell && { "--tint": `${tint(cell.count, most).toFixed(1)}%` }}
        title=${cell ? words(cell) : undefined}><span>${cell ? short(cell.count) : ""}</span></td>`)}</tr>`)}
    </tbody></table></div>
    ${most > 0 && html`<p class="heat-legend muted">Ticks per hour: 0 <i aria-hidden="true"
      style=${{ "--from": `${LIGHTEST}%`, "--to": `${DARKEST}%` }}></i> ${short(most)}</p>`}
    <p class="muted">${inWords(load, most)}</p>`;
}

const words = ({ at, count: ticks }) =>
  `${plural(ticks, "tick")} from ${local(at).slice(0, 16)} to ${local(at + HOUR).slice(11, 16)}`;

function inWords(load, most) {
  const all = load.hours.reduce((sum, one) => sum + one, 0);
  if (!all) return "No ticks in the coming week.";
  const busiest = Date.parse(load.since) + load.hours.indexOf(most) * HOUR;
  const peak = `The busiest minute is ${local(load.peak.at).slice(0, 16)} with ${plural(load.peak.count, "tick")}`;
  const hour = `the busiest hour starts at ${local(busiest).slice(0, 16)} with ${count(most)}`;
  const often = load.unseen && plural(load.unseen, "schedule ticks", "schedules tick");
  const unseen = often ? ` ${often} too often to be counted in full.` : "";
  const sum = `${plural(all, "tick")} of ${plural(load.schedules, "schedule")} in the coming week.`;
  return `${sum} ${peak}; ${hour}. Times are in ${zone}.${unseen}`;
}
