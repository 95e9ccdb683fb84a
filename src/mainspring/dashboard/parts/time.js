// Instants and durations: relative times, with the exact time in the viewer's zone and in UTC.
import { useNow } from "../clock.js";
import { localAndUtc, duration, isUtc, local, relative, utc } from "../format.js";
import { html } from "../html.js";

/** "3 min ago", with the exact time as a tooltip; `exact` shows the exact time. */
export function Time({ at, exact = false }) {
  const now = useNow();
  if (!at) return html`<span class="muted">–</span>`;
  const when = Date.parse(at);
  if (exact) {
    const [shown, more] = isUtc(when) ? [utc(when), ""] : [local(when), ` · ${utc(when)}`];
    return html`<time datetime=${at} class="exact">${shown}${" "}
      <span class="muted">${relative(when, now)}${more}</span></time>`;
  }
  return html`<time datetime=${at} title=${localAndUtc(when)}>${relative(when, now)}</time>`;
}

/** The duration between two instants; up to now without `until`. */
export function Span({ from, until }) {
  const now = useNow();
  if (!from) return html`<span class="muted">–</span>`;
  const seconds = ((until ? Date.parse(until) : now) - Date.parse(from)) / 1000;
  const title = `from ${local(Date.parse(from))}${until ? ` to ${local(Date.parse(until))}` : " on"}`;
  return html`<span title=${title}>${duration(Math.max(0, seconds))}</span>`;
}
