// The time window of statistics. It is in the URL, so that it can be shared.
import { html } from "../html.js";
import { go, link, useRoute } from "../route.js";

/** name: [label, seconds]. */
export const WINDOWS = {
  "15m": ["15 min", 900], "1h": ["1 hour", 3600], "6h": ["6 hours", 21600], "24h": ["24 hours", 86400],
  "3d": ["3 days", 259200], "7d": ["7 days", 604800],
};
/** "the last hour", "the last 7 days". */
export const windowText = (window) => `the last ${window === "1h" ? "hour" : WINDOWS[window][0]}`;
// Queue depths are not stored for longer.
const DEFAULT_WINDOWS = ["15m", "1h", "6h", "24h", "3d"];

export function useWindow(fallback = "1h", of = DEFAULT_WINDOWS) {
  const chosen = useRoute().query.get("window");
  return of.includes(chosen) ? chosen : fallback;
}

/** `path` is the page's, `of` are the windows to choose from. */
export function WindowChoice({ path, value, of = DEFAULT_WINDOWS }) {
  const { query } = useRoute();
  const choose = (window) => go(link(path, { ...Object.fromEntries(query), window }), { replace: true });
  return html`<div class="segments" role="group" aria-label="Figures of the last">${of.map((name) => html`
    <button key=${name} type="button" aria-pressed=${name === value} onClick=${() => choose(name)}>
      ${WINDOWS[name][0]}</button>`)}</div>`;
}
