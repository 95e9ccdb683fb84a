// The frame of every page: navigation, state of the live feed, and the user menu.
import { get } from "../api.js";
import { count } from "../format.js";
import { html, useEffect, useMemo, useRef, useState } from "../html.js";
import { useKeys } from "../keyboard.js";
import { feed, setPaused, useData, useFeed } from "../live.js";
import { go, useRoute } from "../route.js";
import { signOut, useSession } from "../session.js";
import { setTheme, theme } from "../theme.js";
import { Dialog, Questions } from "./dialog.js";
import { Icon } from "./icons.js";
import { Logo } from "./logo.js";
import { Toasts } from "./toast.js";

/** [name, label, key after "g", required scope, required role] of each page. */
export const PAGES = [
  ["", "Overview", "o", null], ["jobs", "Jobs", "j", "jobs"], ["flows", "Flows", "f", "flows"],
  ["schedules", "Schedules", "s", "schedules"],
  ["queues", "Queues", "q", "queues"], ["dead", "Dead letters", "d", "dead"], ["workers", "Workers", "w", "workers"],
  ["audit", "Audit", "a", "audit"], ["webhooks", "Webhooks", "h", "webhooks"],
  ["keys", "API keys", "k", "keys", "admin"], ["settings", "Settings", "t", "settings", "admin"],
];

export function Shell({ children, onLeft }) {
  const session = useSession();
  const { page } = useRoute();
  const [help, showHelp] = useState(false);
  const [menu, showMenu] = useState(false);
  useEffect(() => showMenu(false), [page]);
  const seen = PAGES.filter(([, , , scope, role]) => session.sees(scope, role));
  const { paused } = useFeed();
  const keys = useMemo(() => ({
    "?": { words: "this help", run: () => showHelp(true) },
    "/": { words: "search jobs", run: focusSearch },
    p: { words: "pause and resume live updates", run: () => setPaused(!feed.paused) },
    ...Object.fromEntries(seen.map(
      ([name, words, key]) => [`g ${key}`, { words: `go to ${words}`, run: () => go(name || "./") }],
    )),
  }), [paused, session]);
  useKeys(keys);
  const leave = async () => (await signOut(), onLeft());
  return html`
    <a class="skip" href="#main" data-plain>Skip to content</a>
    <header class="shell">
      <a class="brand" href="./"><${Logo} />Mainspring</a>
      <button class="quiet menu" aria-expanded=${menu} aria-controls="nav" aria-label="Menu"
        onClick=${() => showMenu(!menu)}><${Icon} name="menu" /></button>
      <nav id="nav" aria-label="Pages" class=${menu ? "open" : ""}>${seen.map(([name, words]) => html`
        <a key=${name} href=${name || "./"} aria-current=${page === name ? "page" : undefined}>
          ${words}${name === "dead" && html`<${DeadCount} />`}</a>`)}
      </nav>
      <div class="tools">
        <${LiveButton} />
        <${ThemeButton} />
        <button class="quiet" aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)"
          onClick=${() => showHelp(true)}>?</button>
        <${UserMenu} session=${session} onLeave=${leave} />
      </div>
    </header>
    <main id="main">${children}</main>
    <${Toasts} /><${Questions} />
    ${help && html`<${Dialog} title="Keyboard shortcuts" onClose=${() => showHelp(false)}><dl class="keys">
      ${Object.entries(keys).map(([name, key]) => html`<div key=${name}>
        <dt>${name.split(" ").map((one) => html`<kbd>${one}</kbd> `)}</dt><dd>${key.words}</dd></div>`)}
    </dl><//>`}`;
}

/** Focuses the search field. It is on the jobs page, so that page is opened first. */
function focusSearch() {
  if (!document.getElementById("search")) go("jobs");
  focusWhenRendered("search", 100);
}

/** Focuses an element when it is rendered, within this number of frames. */
function focusWhenRendered(id, frames) {
  const found = document.getElementById(id);
  if (found) found.focus();
  else if (frames) requestAnimationFrame(() => focusWhenRendered(id, frames - 1));
}

function UserMenu({ session, onLeave }) {
  const ref = useRef();
  useEffect(() => {
    const elsewhere = (event) => {
      const outside = event.type === "click" && !ref.current.contains(event.target);
      if (event.key === "Escape" || outside) ref.current.open = false;
    };
    addEventListener("click", elsewhere);
    addEventListener("keydown", elsewhere);
    return () => (removeEventListener("click", elsewhere), removeEventListener("keydown", elsewhere));
  }, []);
  const initial = session.name.replace(/^\w+:/, "").slice(0, 1).toUpperCase(); // A for key:ada
  return html`<details class="who" ref=${ref}>
    <summary aria-label=${`Signed in as ${session.name}`}>${initial}</summary>
    <div class="card"><p><b>${session.name}</b><br /><span class="muted">${session.role}</span></p>
      ${session.expires_at && html`<button onClick=${onLeave}>Sign out</button>`}</div>
  </details>`;
}

function LiveButton() {
  const { paused, state, reason } = useFeed();
  const words = { live: "Live", connecting: "Connecting", paused: "Paused", stalled: "Not live" }[state];
  const title = state === "stalled" ? `No live updates, reloading every 5 s: ${reason}` : "Pause live updates (p)";
  return html`<button class=${`live live-${state}`} aria-pressed=${paused}
      title=${paused ? "Resume live updates (p)" : title} onClick=${() => setPaused(!paused)}>
    <i></i><span>${words}</span></button>`;
}

function DeadCount() {
  const { value } = useData((signal) => get("jobs/counts", {}, signal), [], { every: 10 });
  return value?.dead ? html`<span class="badge" title="dead jobs">${count(value.dead)}</span>` : null;
}

const NEXT_THEME = { auto: "light", light: "dark", dark: "auto" };
const THEME_ICONS = { auto: "auto", light: "sun", dark: "moon" };

function ThemeButton() {
  const [now, set] = useState(theme());
  const turn = () => (setTheme(NEXT_THEME[now]), set(NEXT_THEME[now]));
  const words = `Theme: ${now === "auto" ? "system" : now}`;
  return html`<button class="quiet" aria-label=${words} title=${words} onClick=${turn}>
    <${Icon} name=${THEME_ICONS[now]} /></button>`;
}
