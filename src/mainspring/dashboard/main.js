// Where it begins: who is there, and which page they want.
import { onSignedOut } from "./api.js";
import { setClock } from "./clock.js";
import { html, render, useEffect, useRef, useState } from "./html.js";
import { Audit } from "./pages/audit.js";
import { Dead } from "./pages/dead.js";
import { Job } from "./pages/job.js";
import { Jobs } from "./pages/jobs.js";
import { Keys } from "./pages/keys.js";
import { Overview } from "./pages/overview.js";
import { Queue } from "./pages/queue.js";
import { Queues } from "./pages/queues.js";
import { Schedule } from "./pages/schedule.js";
import { Schedules } from "./pages/schedules.js";
import { SignIn } from "./pages/signin.js";
import { Webhook } from "./pages/webhook.js";
import { Webhooks } from "./pages/webhooks.js";
import { Worker } from "./pages/worker.js";
import { Workers } from "./pages/workers.js";
import { Empty, Head, Trouble } from "./parts/page.js";
import { Shell } from "./parts/shell.js";
import { followLinks, useRoute } from "./route.js";
import { current, Session, signIn, tokenInAddress } from "./session.js";
import { apply } from "./theme.js";

/** By the first part of the path: the list, and the page of one of them. */
const PAGES = {
  "": [Overview], jobs: [Jobs, Job], schedules: [Schedules, Schedule], queues: [Queues, Queue], dead: [Dead],
  workers: [Workers, Worker], audit: [Audit], keys: [Keys], webhooks: [Webhooks, Webhook],
};

function Page() {
  const { page, rest } = useRoute();
  const first = useRef(true);
  useEffect(() => {
    // Who hears the page, or uses its keys, begins where the new one does.
    if (!first.current) document.querySelector("h1")?.focus({ preventScroll: true });
    first.current = false;
  }, [page, rest]);
  const [List, One] = PAGES[page] ?? [Nowhere];
  return rest && One ? html`<${One} key=${rest} id=${rest} />` : html`<${List} />`;
}

function Nowhere() {
  return html`<${Head} title="No such page" /><${Empty} title="There is nothing at this address"><a href="./">To the overview</a><//>`;
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
  if (state.session === undefined) return state.error ? html`<${Trouble} error=${state.error} retry=${begin} />` : html`<p class="boot">Mainspring</p>`;
  if (!state.session) return html`<${SignIn} why=${state.why} onDone=${(session) => set({ session, why: null, error: null })} />`;
  return html`<${Session.Provider} value=${state.session}><${Shell} onLeft=${() => set({ session: null, why: null, error: null })}><${Page} /><//><//>`;
}

apply();
followLinks();
const place = document.getElementById("app");
place.textContent = "";
render(html`<${Dashboard} />`, place);
