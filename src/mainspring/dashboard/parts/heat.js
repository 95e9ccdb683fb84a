// The coming week's load: ticks by day and hour of the viewer's zone, as a table that is coloured.
import { count, local, plural, short, zone } from "../format.js";
import { html } from "../html.js";

const HOUR = 3_600_000;
const LEVELS = 5;
const EVEN = 1.2; // the fullest hour by the emptiest, below which shades would make much of little
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
 * { level, legend: [[level, words], …] }: shades go from the emptiest hour to the fullest. Where those hardly differ,
 * most hours have one shade, and those with more or fewer ticks than that are told from it, but not loudly.
 */
export function shades(hours) {
  const sorted = hours.toSorted((a, b) => a - b);
  const [least, usual, most] = [sorted[0], sorted[sorted.length >> 1], sorted.at(-1)];
  if (most < EVEN * least) {
    const legend = [[1, "fewer"], [2, `${count(usual)} an hour`], [3, "more"]];
    const seen = legend.filter(([n]) => n === 2 || (n === 1 ? least < usual : most > usual));
    return { level: (ticks) => 2 + Math.sign(ticks - usual), legend: seen };
  }
  const level = (ticks) => (ticks ? 1 + Math.round(((LEVELS - 1) * (ticks - least)) / (most - least)) : 0);
  const [none, low] = [least ? [] : [[0, "none"]], Math.max(1, least)];
  const steps = Array.from({ length: LEVELS }, (_, n) => [n + 1, ""]);
  [steps[0][1], steps.at(-1)[1]] = [short(low), `${short(most)} an hour`];
  return { level, legend: [...none, ...steps] };
}

/** `load` is what the API answers to scheduler/distribution?days=7. */
export function Heat({ load }) {
  const since = Date.parse(load.since);
  const most = Math.max(...load.hours);
  const { level, legend } = shades(load.hours);
  return html`<div class="heat"><table>
    <caption class="unseen">Ticks in each hour of the coming week, in ${zone}</caption>
    <thead><tr><th scope="col"><span class="unseen">Day</span></th>
      ${HOURS.map((hour) => html`<th key=${hour} scope="col">${two(hour)}</th>`)}</tr></thead>
    <tbody>${days(since, load.hours).map(({ key, day, cells }) => html`<tr key=${key}><th scope="row">${day}</th>
      ${cells.map((cell, hour) => html`<td key=${hour}
        class=${cell ? `heat-${level(cell.count)}` : "heat-none"}
        title=${cell ? words(cell) : undefined}><span>${cell ? short(cell.count) : ""}</span></td>`)}</tr>`)}
    </tbody></table></div>
    ${most > 0 && html`<p class="heat-legend muted">Ticks:${legend.map(([n, words]) => html`<span key=${n}>
      <i class=${`heat-${n}`}></i>${words}</span>`)}</p>`}
    <p class="muted">${inWords(load, most)}</p>`;
}

const words = ({ at, count: ticks }) =>
  `${plural(ticks, "tick")} from ${local(at).slice(0, 16)} to ${local(at + HOUR).slice(11, 16)}`;

function inWords(load, most) {
  const all = load.hours.reduce((sum, one) => sum + one, 0);
  if (!all) return "No ticks in the coming week.";
  const busiest = Date.parse(load.since) + load.hours.indexOf(most) * HOUR;
  const peak = `The fullest minute is ${local(load.peak.at).slice(0, 16)} with ${plural(load.peak.count, "tick")}`;
  const hour = `the fullest hour begins ${local(busiest).slice(0, 16)} with ${count(most)}`;
  const often = load.unseen && plural(load.unseen, "schedule ticks", "schedules tick");
  const unseen = often ? ` ${often} too often to be counted to the end.` : "";
  const sum = `${plural(all, "tick")} of ${plural(load.schedules, "schedule")} in the coming week.`;
  return `${sum} ${peak}; ${hour}. Times are in ${zone}.${unseen}`;
}
