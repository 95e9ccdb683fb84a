// Where it begins: who is there, and which page they want.
import { onSignedOut, Unreachable } from "./api.js";
import { setClock } from "./clock.js";
import { html, render, useEffect, useState } from "./html.js";
import { SignIn } from "./pages/signin.js";
import { Empty, Head, Trouble } from "./parts/page.js";
import { Shell } from "./parts/shell.js";
import { followLinks, useRoute } from "./route.js";
import { current, Session, signIn, tokenInAddress } from "./session.js";
import { apply } from "./theme.js";

/** By the first part of the path: the list, and the page of one of them; loaded on the first visit. */
const PAGES = {
  "": [later("Overview", () => import("./pages/overview.js"))],
  jobs: [later("Jobs", () => import("./pages/jobs.js")), later("Job", () => import("./pages/job.js"))],
  schedules: [
    later("Schedules", () => import("./pages/schedules.js")),
    later("Schedule", () => import("./pages/schedule.js")),
  ],
  queues: [later("Queues", () => import("./pages/queues.js")), later("Queue", () => import("./pages/queue.js"))],
  dead: [later("Dead", () => import("./pages/dead.js"))],
  workers: [later("Workers", () => import("./pages/workers.js")), later("Worker", () => import("./pages/worker.js"))],
  audit: [later("Audit", () => import("./pages/audit.js"))],
  settings: [later("Settings", () => import("./pages/settings.js"))],
  keys: [later("Keys", () => import("./pages/keys.js"))],
  webhooks: [
    later("Webhooks", () => import("./pages/webhooks.js")),
    later("Webhook", () => import("./pages/webhook.js")),
  ],
};
// Milliseconds after which pages that were not visited yet are fetched, so that they open at once.
const AHEAD = 4000;

/** A page whose module is fetched when it is first shown. */
function later(name, load) {
  const fetched = async () => (Later.page ??= (await load())[name]);
  function Later(props) {
    const [state, set] = useState({ Page: Later.page, error: null });
    const failed = () => set({ Page: null, error: new Unreachable() });
    const fetch = () => fetched().then((Page) => set({ Page, error: null }), failed);
    useEffect(() => void (state.Page || fetch()), []);
    if (state.error) return html`<${Trouble} error=${state.error} retry=${() => location.reload()} />`;
    return state.Page ? html`<${state.Page} ...${props} />` : html`<p class="loading" aria-busy="true">Loading…</p>`;
  }
  return Object.assign(Later, { fetched });
}

function Page() {
  const { page, rest } = useRoute();
  useEffect(() => {
    const timer = setTimeout(() => Object.values(PAGES).flat().forEach((one) => one.fetched().catch(() => {})), AHEAD);
    return () => clearTimeout(timer);
  }, []);
  const [List, One] = PAGES[page] ?? [Nowhere];
  return rest && One ? html`<${One} key=${rest} id=${rest} />` : html`<${List} key=${page} />`;
}

function Nowhere() {
  return html`<${Head} title="Page not found" />
    <${Empty} title="Nothing is at this address"><a href="./">Overview</a><//>`;
}

function Dashboard() {
  const [state, set] = useState({ session: undefined, why: null, error: null });
  const begin = async () => {
    const token = tokenInAddress();
    try {
      set({ session: token ? await signIn(token) : await current(), why: null, error: null });
    } catch (error) {
      set({ session: error.status ? await current() : undefined, why: error.message, error });
    }
  };
  useEffect(() => {
    begin();
    onSignedOut((refusal) => set({ session: null, why: refusal.message, error: null }));
  }, []);
  useEffect(() => void (state.session && setClock().catch(() => {})), [state.session]);
  const become = (session) => set({ session, why: null, error: null });
  if (state.error && state.session === undefined) return html`<${Trouble} error=${state.error} retry=${begin} />`;
  if (state.session === undefined) return html`<p class="boot">Mainspring</p>`;
  if (!state.session) return html`<${SignIn} why=${state.why} onDone=${become} />`;
  return html`<${Session.Provider} value=${state.session}>
    <${Shell} onLeft=${() => become(null)}><${Page} /><//><//>`;
}

apply();
followLinks();
const place = document.getElementById("app");
place.textContent = "";
render(html`<${Dashboard} />`, place);
