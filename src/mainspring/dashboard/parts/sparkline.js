// A line so small that it stands in a row of a table; the figures are in its name.
import { html } from "../html.js";

const [WIDE, HIGH] = [96, 24];

/** `values` from old to new; null is a gap, drawn as nothing. */
export function Sparkline({ values, label, colour = "--state-pending" }) {
  const most = Math.max(1, ...values.filter((one) => one !== null));
  const step = WIDE / Math.max(1, values.length - 1);
  const points = values.map((one, n) => one === null ? null : `${(n * step).toFixed(1)},${(HIGH - 2 - (one / most) * (HIGH - 4)).toFixed(1)}`)
    .filter(Boolean);
  return html`<svg class="sparkline" width=${WIDE} height=${HIGH} viewBox=${`0 0 ${WIDE} ${HIGH}`} role="img" aria-label=${label}
    style=${{ color: `var(${colour})` }}><title>${label}</title>
    ${points.length > 1 && html`<polygon points=${`${points[0].split(",")[0]},${HIGH} ${points.join(" ")} ${points.at(-1).split(",")[0]},${HIGH}`} /><polyline points=${points.join(" ")} />`}
  </svg>`;
}
