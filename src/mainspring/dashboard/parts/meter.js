// How much of something is used, or how far it has come: a bar, and words.
import { html } from "../html.js";

/** `most` may be null: then nobody knows how much there is. `words` stand beside it. */
export function Meter({ value, most, label, words, role = "meter" }) {
  const share = most ? Math.min(1, Math.max(0, value / most)) : 0;
  return html`<span class="meter">
    ${most !== null && html`<span class=${`bar ${share === 1 && role === "meter" ? "full" : ""}`} role=${role} aria-label=${label} aria-valuemin="0"
      aria-valuemax=${most} aria-valuenow=${value} aria-valuetext=${words}><i style=${{ width: `${share * 100}%` }}></i></span>`}
    <span class="nowrap">${words}</span></span>`;
}
