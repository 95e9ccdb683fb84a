// Over which span figures are taken: in the address, so that it can be shared.
import { html, useId } from "../html.js";
import { go, link, useRoute } from "../route.js";

/** name: words, and its seconds. */
export const WINDOWS = { "15m": ["15 min", 900], "1h": ["1 hour", 3600], "6h": ["6 hours", 21600], "24h": ["24 hours", 86400], "3d": ["3 days", 259200] };

export function useWindow(otherwise = "1h") {
  const asked = useRoute().query.get("window");
  return asked in WINDOWS ? asked : otherwise;
}

/** `path` is of the page that it stands on. */
export function WindowChoice({ path, value }) {
  const id = useId();
  const { query } = useRoute();
  const choose = (event) => go(link(path, { ...Object.fromEntries(query), window: event.target.value }), { replace: true });
  return html`<span class="row"><label class="muted" for=${id}>Figures of the last</label>
    <select id=${id} value=${value} onChange=${choose}>${Object.entries(WINDOWS).map(([name, [words]]) => html`
      <option key=${name} value=${name} selected=${name === value}>${words}</option>`)}</select></span>`;
}
