// A small line chart for a table row, with a text alternative.
import { html } from "../html.js";

const [WIDE, HIGH] = [96, 24];

/** `points` is [[seconds, value], …], oldest first, drawn from `from` to `until`. Null values are omitted. */
export function Sparkline({ points, from, until, label, colour = "--state-pending" }) {
  const known = points.filter(([, value]) => value !== null);
  const most = Math.max(1, ...known.map(([, value]) => value));
  const x = (at) => (Math.max(0, (at - from) / (until - from)) * WIDE).toFixed(1);
  const line = known.map(([at, value]) => `${x(at)},${(HIGH - 2 - (value / most) * (HIGH - 4)).toFixed(1)}`).join(" ");
  const area = () => `${x(known[0][0])},${HIGH} ${line} ${x(known.at(-1)[0])},${HIGH}`;
  return html`<svg class="sparkline" width=${WIDE} height=${HIGH} viewBox=${`0 0 ${WIDE} ${HIGH}`} role="img"
    aria-label=${label} style=${{ color: `var(${colour})` }}><title>${label}</title>
    ${known.length > 1 && html`<polygon points=${area()} /><polyline points=${line} />`}
  </svg>`;
}
