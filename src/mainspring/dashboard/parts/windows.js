// How far back statistics go: chosen here, kept in the address.
import { html } from "../html.js";
import { go, link, useRoute } from "../route.js";

/** As the API takes them, with words. */
export const WINDOWS = { "15m": "15 min", "1h": "1 h", "6h": "6 h", "24h": "24 h", "7d": "7 d" };
export const WORDS = { "15m": "15 minutes", "1h": "hour", "6h": "6 hours", "24h": "24 hours", "7d": "7 days" };

export function useWindow(usual = "1h") {
  const asked = useRoute().query.get("window");
  return Object.hasOwn(WINDOWS, asked ?? "") ? asked : usual;
}

/** `only`: some of them. */
export function WindowChoice({ usual = "1h", only = Object.keys(WINDOWS) }) {
  const { page, rest, query } = useRoute();
  const chosen = useWindow(usual);
  const choose = (window) => {
    const kept = Object.fromEntries([...new Set(query.keys())].map((name) => [name, query.getAll(name)]));
    go(link([page, rest && encodeURIComponent(rest)].filter(Boolean).join("/"), { ...kept, window: window === usual ? "" : window }), { replace: true });
  };
  return html`<div class="segments" role="group" aria-label="How far back">${only.map((window) => html`
    <button key=${window} type="button" aria-pressed=${window === chosen} title=${`The last ${WORDS[window]}`} onClick=${() => choose(window)}>${WINDOWS[window]}</button>`)}</div>`;
}
