// /flows/{id}: one flow: its graph, its steps over time and as a table, and why it waits.
import { get, segment } from "../api.js";
import { plural } from "../format.js";
import { hasEnded } from "../flow_layout.js";
import { html, useMemo, useState } from "../html.js";
import { useData } from "../live.js";
import { CopyButton } from "../parts/copy_button.js";
import { FlowActions } from "../parts/flow_actions.js";
import { FlowGantt } from "../parts/flow_gantt.js";
import { FlowGraph } from "../parts/flow_graph.js";
import { FlowStep, FoldedSteps } from "../parts/flow_step.js";
import { FlowTable } from "../parts/flow_table.js";
import { Empty, ErrorNotice, Facts, Head, Loaded } from "../parts/page.js";
import { State } from "../parts/state.js";
import { Span, Time } from "../parts/time.js";
import { Why } from "../parts/why.js";
import { flowLink, go, jobLink, link, scheduleLink, useRoute } from "../route.js";

const FINAL = new Set(["completed", "dead", "cancelled", "expired"]);
// What changes a flow. Progress and log lines of its steps do not.
const TYPES = [
  "job.started", "job.completed", "job.retrying", "job.dead", "job.cancelled", "job.snoozed", "job.released",
  "job.suspended", "job.expired", "job.lost", "job.changed",
];
const RELOAD_SECONDS = 5; // for changes without an event of this flow: queues, workers, large maps being made
// A flow with more items to run, or with more steps, is asked for every so often: their events would cost more.
const BUSY_ITEMS = 1000, BUSY_STEPS = 300, BUSY_SECONDS = 2;
const VIEWS = { graph: "Graph", time: "Timeline", steps: "Steps" };

async function load(id, signal) {
  const at = `flows/${segment(id)}`;
  const [flow, why] = await Promise.all([get(at, {}, signal), get(`${at}/why`, {}, signal)]);
  // Why steps were not run is shown with these steps.
  return { flow, reasons: why.filter(({ code }) => code !== "step_skipped" && code !== "step_not_run") };
}

export function Flow({ id }) {
  const [pace, setPace] = useState({ final: false, busy: false });
  const data = useData(async (signal) => {
    const found = await load(id, signal);
    const open = found.flow.steps.reduce((sum, { items }) => sum + (items ? items.open : 0), 0);
    const final = FINAL.has(found.flow.job.shown);
    const next = { final, busy: !final && (open > BUSY_ITEMS || found.flow.steps.length > BUSY_STEPS) };
    setPace((before) => (before.final === next.final && before.busy === next.busy ? before : next));
    return found;
  }, [id], {
    live: pace.busy ? null : { flow: id, type: TYPES },
    every: pace.busy ? BUSY_SECONDS : pace.final ? 0 : RELOAD_SECONDS,
  });
  if (data.error?.status === 404) return html`<${Missing} id=${id} />`;
  if (!data.value) return html`<${Head} title="Flow" /><${Loaded} data=${data} />`;
  return html`${data.error && html`<${ErrorNotice} error=${data.error} retry=${data.reload} />`}
    <${FlowPage} ...${data.value} changed=${data.reload} />`;
}

function FlowPage({ flow, reasons, changed }) {
  const { job } = flow;
  const { query } = useRoute();
  const view = Object.hasOwn(VIEWS, query.get("view")) ? query.get("view") : "graph";
  const chosen = chosenStep(flow, query);
  const batch = job.task === "mainspring.batch" && `Batch ${job.metadata.batch}`;
  const show = (change) => go(link(flowLink(job.id), { view: query.get("view"), step: chosen, ...change }),
    { replace: true });
  const choose = (step) => show({ step: step === chosen ? null : step });
  const steps = useMemo(() => new Map(flow.steps.map((step) => [step.name, step])), [flow]);
  const folded = !steps.has(chosen) && flow.graph?.nodes.find((node) => node.id === chosen);
  const step = steps.get(chosen);
  const shared = { flow, chosen, onChoose: choose };
  return html`
    <nav class="crumbs" aria-label="Where this is"><a href="flows">Flows</a>${flow.parent && html` › <a
      href=${link(flowLink(flow.parent.flow), { step: flow.parent.step })}>${flow.parent.step ?? "the flow above"}</a>`}
    </nav>
    <${Head} title=${batch || job.task} actions=${html`<${FlowActions} flow=${flow} changed=${changed} />`}>
      <span role="status"><${State} of=${job.outcome ?? job.shown} />${flow.stopping
        && html` <span class="muted">is stopping</span>`}</span>
      <span class="job-id"><code>${job.id}</code><${CopyButton} text=${job.id} name="the id" /></span>
    <//>
    <div class="stack">
      <${Why} job=${job} reasons=${reasons} changed=${changed} isFlow />
      <section class="card" aria-label="Facts"><${FlowFacts} flow=${flow} /></section>
      <div class=${`flow-columns ${step || folded ? "" : "flow-alone"}`}>
        <section class="card" aria-label="Steps">
          <div class="flow-head"><h2>${plural(flow.steps.length, "step")}</h2>
            <div class="segments" role="group" aria-label="Show as">${Object.entries(VIEWS).map(([name, words]) => html`
              <button key=${name} type="button" aria-pressed=${name === view}
                onClick=${() => show({ view: name })}>${words}</button>`)}</div></div>
          ${!flow.steps.length
            ? html`<p class="muted">${flow.planned_at ? "It has no steps." : "It is not planned yet."}</p>`
            : view === "time" ? html`<${FlowGantt} ...${shared} />`
            : view === "steps" ? html`<${FlowTable} ...${shared} />`
            : html`<${FlowGraph} graph=${flow.graph} steps=${steps} chosen=${chosen} onChoose=${choose} />`}
        </section>
        ${step && html`<${FlowStep} key=${step.name} flow=${flow} step=${step} version=${versionOf(step)}
          onChoose=${(name) => show({ step: name })} onClose=${() => show({ step: null })} changed=${changed} />`}
        ${folded && html`<${FoldedSteps} key=${folded.id} node=${folded} steps=${steps}
          onChoose=${(name) => show({ step: name })} onClose=${() => show({ step: null })} />`}
      </div>
    </div>`;
}

/** The name in the URL. The page of a step's job knows only the number of its step. */
function chosenStep(flow, query) {
  const number = query.get("number");
  return query.get("step") ?? (number === null ? null : flow.steps[Number(number)]?.name ?? null);
}

const versionOf = (step) => `${step.status} ${step.job_id} ${step.attempts} ${step.finished_at}`;

function FlowFacts({ flow }) {
  const { job, steps } = flow;
  const number = (states) => steps.filter((step) => states.includes(step.status)).length;
  const failed = number(["dead"]), left = number(["not_run", "skipped", "cancelled"]);
  const done = steps.filter(hasEnded).length;
  const more = [failed && `${failed} dead`, left && `${left} not run or skipped`].filter(Boolean).join(", ");
  return html`<${Facts} of=${[
    ["Steps", `${done} of ${steps.length} ended${more ? ` (${more})` : ""}`],
    ["Planned", flow.planned_at ? html`<${Time} at=${flow.planned_at} />` : "not yet"],
    ["Took", flow.planned_at ? html`<${Span} from=${flow.planned_at} until=${flow.ended_at} />` : undefined],
    ["Queue", html`<a href=${link("jobs", { queue: job.queue })}>${job.queue}</a>`],
    ["Schedule", job.schedule ? html`<a href=${scheduleLink(job.schedule)}>${job.schedule}</a>` : undefined],
    ["Replays", flow.replay_of ? html`<a href=${flowLink(flow.replay_of)}>an earlier flow</a>` : undefined],
    ["Job", html`<a href=${jobLink(job.id)}>Arguments, result, runs</a>`],
  ]} />`;
}

function Missing({ id }) {
  return html`<${Head} title="No such flow" />
    <${Empty} title="There is no flow with this id">
      <p class="job-missing"><code>${id}</code></p>
      <p class="job-missing">It may have been deleted, or finished and pruned, or be a job without steps.</p>
      <p><a class="button primary" href="flows">All flows</a>${" "}
        <a class="button" href=${jobLink(id)}>The job with this id</a></p>
    <//>`;
}
