// A bar that shows a used share, with a text.
import { html } from "../html.js";

/** `words` is the text beside the bar. */
export function Meter({ value, most, label, words }) {
  const share = most ? Math.min(1, Math.max(0, value / most)) : 0;
  return html`<span class="meter">
    <span class=${`bar ${share === 1 ? "full" : ""}`} role="meter" aria-label=${label}
      aria-valuemin="0" aria-valuemax=${most} aria-valuenow=${Math.min(value, most)}
      aria-valuetext=${words}><i style=${{ width: `${share * 100}%` }}></i></span>
    <span class="nowrap">${words}</span></span>`;
}
