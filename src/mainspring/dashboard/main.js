// The entry point: checks the session and renders the page for the URL.
import { onSignedOut, Unreachable } from "./api.js";
import { setClock } from "./clock.js";
import { html, render, useEffect, useState } from "./html.js";
import { SignIn } from "./pages/signin.js";
import { Empty, Head, ErrorNotice } from "./parts/page.js";
import { Shell } from "./parts/app_shell.js";
import { followLinks, useRoute } from "./route.js";
import { current, Session, signIn, tokenInAddress } from "./session.js";
import { apply } from "./theme.js";

/** The pages by the first part of the path: the list, and the page of one item. Loaded on the first visit. */
const PAGES = {
  "": [lazyPage("Overview", () => import("./pages/overview.js"))],
  jobs: [lazyPage("Jobs", () => import("./pages/jobs.js")), lazyPage("Job", () => import("./pages/job.js"))],
  flows: [lazyPage("Flows", () => import("./pages/flows.js")), lazyPage("Flow", () => import("./pages/flow.js"))],
  schedules: [
    lazyPage("Schedules", () => import("./pages/schedules.js")),
    lazyPage("Schedule", () => import("./pages/schedule.js")),
  ],
  queues: [lazyPage("Queues", () => import("./pages/queues.js")), lazyPage("Queue", () => import("./pages/queue.js"))],
  dead: [lazyPage("Dead", () => import("./pages/dead.js"))],
  workers: [
    lazyPage("Workers", () => import("./pages/workers.js")),
    lazyPage("Worker", () => import("./pages/worker.js")),
  ],
  audit: [lazyPage("Audit", () => import("./pages/audit.js"))],
  settings: [lazyPage("Settings", () => import("./pages/settings.js"))],
  keys: [lazyPage("Keys", () => import("./pages/keys.js"))],
  webhooks: [
    lazyPage("Webhooks", () => import("./pages/webhooks.js")),
    lazyPage("Webhook", () => import("./pages/webhook.js")),
  ],
};
// After this time the other pages are loaded, so that they open at once.
const PREFETCH_AFTER_MS = 4000;

/** A page whose module is loaded when it is first shown. */
function lazyPage(name, load) {
  const fetched = async () => (Later.page ??= (await load())[name]);
  function Later(props) {
    const [state, set] = useState({ Page: Later.page, error: null });
    const failed = () => set({ Page: null, error: new Unreachable() });
    const fetch = () => fetched().then((Page) => set({ Page, error: null }), failed);
    useEffect(() => void (state.Page || fetch()), []);
    if (state.error) return html`<${ErrorNotice} error=${state.error} retry=${() => location.reload()} />`;
    return state.Page ? html`<${state.Page} ...${props} />` : html`<p class="loading" aria-busy="true">Loading…</p>`;
  }
  return Object.assign(Later, { fetched });
}

function Page() {
  const { page, rest } = useRoute();
  useEffect(() => {
    const prefetch = () => Object.values(PAGES).flat().forEach((one) => one.fetched().catch(() => {}));
    const timer = setTimeout(prefetch, PREFETCH_AFTER_MS);
    return () => clearTimeout(timer);
  }, []);
  const [List, One] = PAGES[page] ?? [NotFound];
  return rest && One ? html`<${One} key=${rest} id=${rest} />` : html`<${List} key=${page} />`;
}

function NotFound() {
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
  const setSession = (session) => set({ session, why: null, error: null });
  if (state.error && state.session === undefined) return html`<${ErrorNotice} error=${state.error} retry=${begin} />`;
  if (state.session === undefined) return html`<p class="boot">Mainspring</p>`;
  if (!state.session) return html`<${SignIn} why=${state.why} onDone=${setSession} />`;
  return html`<${Session.Provider} value=${state.session}>
    <${Shell} onLeft=${() => setSession(null)}><${Page} /><//><//>`;
}

apply();
followLinks();
const container = document.getElementById("app");
container.textContent = "";
render(html`<${Dashboard} />`, container);
