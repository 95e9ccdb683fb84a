// The preview of a rule while it is typed: its meaning and its next ticks.
import { post } from "../api.js";
import { stringify } from "../lossless_json.js";
import { local, zone } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { Icon } from "./icons.js";
import { Time } from "./time.js";

const TYPING_MS = 300; // after the last key, a rule is previewed

/**
 * { value, error, loading } of cron/preview for the typed rule, loaded when typing pauses; the last value stays
 * meanwhile. Nothing is loaded while the rule is not `complete`.
 */
export function useRulePreview(trigger, name, complete = true) {
  const [state, set] = useState({ value: null, error: null, loading: true });
  const text = complete ? stringify({ trigger, name, count: 10 }) : "";
  useEffect(() => {
    if (!text) return void set({ value: null, error: null, loading: false });
    const stop = new AbortController();
    set((before) => ({ ...before, loading: true }));
    const timer = setTimeout(async () => {
      try {
        const value = await post("cron/preview", { trigger, name, count: 10 }, { signal: stop.signal });
        set({ value, error: null, loading: false });
      } catch (error) {
        if (!stop.signal.aborted) set((before) => ({ ...before, error, loading: false }));
      }
    }, TYPING_MS);
    return () => (clearTimeout(timer), stop.abort());
  }, [text]);
  return state;
}

/** The message without its last part "- at `$.trigger`", which is for programs. */
export const withoutPath = (message) => message.replace(/ - at `\$[^`]*`$/, "");

export function RulePreview({ preview, narrowed, tz }) {
  const { value, error, loading } = preview;
  if (error || !value) {
    return html`<section class="preview" aria-label="Preview">
      <p class="muted">${error ? "No preview: the rule is not valid."
        : loading ? "Loading…" : "The next ticks appear here."}
      </p></section>`;
  }
  return html`<section class="preview" aria-label="Preview" aria-busy=${loading}>
    <p class="meaning" aria-live="polite">${value.meaning}</p>
    ${value.warnings.map((words) => html`<p key=${words} class="preview-warning">
      <${Icon} name="warning" /> ${words}</p>`)}
    <${ComingTicks} ticks=${value.next} tz=${tz} />
    ${narrowed && html`<p class="hint">Without its window, excluded dates, start and end.</p>`}
    ${value.clock_changes.length > 0 && html`<h3>When the clocks change</h3>
      <ul class="changes">${value.clock_changes.map((words) => html`<li key=${words}>${words}</li>`)}</ul>`}
  </section>`;
}

/** 2030-01-01T09:00:00+00:00 -> "Tue 2030-01-01 09:00:00 +00:00". */
function wallTime(text) {
  const midnight = new Date(`${text.slice(0, 10)}T00:00Z`);
  const day = midnight.toLocaleDateString("en-GB", { weekday: "short", timeZone: "UTC" });
  return `${day} ${text.slice(0, 10)} ${text.slice(11, 19)}`;
}

const CLOCKS = {
  own: (tick) => tick.local.slice(0, 19).replace("T", " "), yours: (tick) => local(tick.at),
  utc: (tick) => tick.at.slice(0, 19).replace("T", " "),
};

/** Ticks in the time zone of the schedule, in the viewer's and in UTC. Zones with equal times share a column. */
export function ComingTicks({ ticks, tz }) {
  if (!ticks.length) return html`<p class="muted">No ticks to come.</p>`;
  const same = (one, other) => ticks.every((tick) => CLOCKS[one](tick) === CLOCKS[other](tick));
  const [mine, world] = [same("own", "yours"), same("own", "utc")];
  const names = [...new Set([tz, mine && "your time", world && "UTC"])].filter(Boolean).join(", ");
  const own = names ? names[0].toUpperCase() + names.slice(1) : "On its clocks";
  const others = [
    ...(mine ? [] : [["yours", same("yours", "utc") ? "Your time, UTC" : "Your time"]]),
    ...(world || same("yours", "utc") ? [] : [["utc", "UTC"]]),
  ];
  return html`<div class="table ticks"><table>
    <thead><tr>
      <th scope="col">${own}</th><th scope="col">When</th>
      ${others.map(([clock, words]) => html`<th key=${clock} scope="col" title=${zone}>${words}</th>`)}</tr></thead>
    <tbody>${ticks.map((tick) => html`<tr key=${tick.at}>
      <td data-label=${own}><div>${wallTime(tick.local)}
        ${tick.note && html`<div class="preview-warning">
          <${Icon} name="warning" size=${13} /> ${tick.note}</div>`}</div></td>
      <td data-label="When" class="nowrap"><${Time} at=${tick.at} /></td>
      ${others.map(([clock, words]) => html`<td key=${clock} data-label=${words}>${CLOCKS[clock](tick)}</td>`)}
    </tr>`)}</tbody></table></div>`;
}
