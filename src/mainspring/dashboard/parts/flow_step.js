// One step of a flow: its properties, its job or its items, and what can be done with it.
import { get, post, segment } from "../api.js";
import { html, useState } from "../html.js";
import { useData } from "../live.js";
import { flowLink, go, jobLink, link } from "../route.js";
import { useSession } from "../session.js";
import { ActionButton } from "./action_button.js";
import { Failure } from "./failure.js";
import { Field, FormDialog, withToast } from "./form.js";
import { FlowItems } from "./flow_items.js";
import { GiveSignal } from "./give_signal.js";
import { Icon } from "./icons.js";
import { LoadMore, useRowLimit } from "./load_more.js";
import { Facts } from "./page.js";
import { foldedName, notRunWords, startOf, StepSpan, StepState } from "./step_state.js";
import { Time } from "./time.js";

/** on: when the step runs. */
const RUNS = { failure: "after a failure", end: "at the end, in any case" };
const KINDS = {
  map: "a map: one job for each item", flow: "a flow of its own", signal: "a signal: given from outside",
};

const sentence = (words) => `${words.slice(0, 1).toUpperCase()}${words.slice(1)}.`;

/** `version` changes with the step, so that its job is loaded again. */
export function FlowStep({ flow, step, version, onChoose, onClose, changed }) {
  const at = `flows/${segment(flow.job.id)}/steps/${segment(step.name)}`;
  const { value } = useData((signal) => get(at, {}, signal), [at, version]);
  const job = value?.name === step.name ? value.job : null;
  return html`<section class="card flow-step" aria-label=${`Step ${step.name}`}>
    <div class="row"><h2>${step.name}</h2><${StepState} of=${step.status} />
      <button class="quiet" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button></div>
    ${step.reason && html`<p>${sentence(notRunWords(step))}</p>`}
    <div class="row">
      ${step.job_id && html`<a class="button" href=${jobLink(step.job_id)}>Job, runs and log</a>`}
      ${step.kind === "flow" && step.job_id && html`<a class="button primary" href=${flowLink(step.job_id)}>
        <${Icon} name="flow" />Its own flow</a>`}
      ${step.signal && html`<${GiveSignal} id=${flow.job.id} step=${step} changed=${changed} />`}
      <${Retry} step=${step} job=${job} changed=${changed} />
      <${Skip} flow=${flow} step=${step} changed=${changed} />
      <${Replay} flow=${flow} step=${step} />
    </div>
    <${Facts} of=${[
      ["Task", step.task ? html`<a href=${link("jobs", { task: step.task })}>${step.task}</a>` : undefined],
      ["Kind", KINDS[step.kind]],
      ["Queue", step.signal ? undefined : html`<a href=${link("jobs", { queue: step.queue })}>${step.queue}</a>`],
      ["Late", step.signal?.deadline ? html`<${Time} at=${step.signal.deadline} />` : undefined],
      ["Given", step.signal?.given_at ? html`<${Time} at=${step.signal.given_at} />` : undefined],
      ["Needs", step.needs.length ? html`<${Needs} names=${step.needs} onChoose=${onChoose} />` : "nothing"],
      ["Condition", step.when ? html`<code>${step.when}</code>` : undefined],
      ["Runs", RUNS[step.on]],
      ["Optional", step.optional ? "the flow can do without it" : undefined],
      ["Attempts", step.attempts || undefined],
      ["Released", step.released_at ? html`<${Time} at=${step.released_at} />` : undefined],
      ["Took", startOf(step) ? html`<${StepSpan} step=${step} />` : undefined],
      ["Result", step.value ? html`<code>${step.value}</code>` : undefined],
    ]} />
    ${job?.failure && step.status !== "completed" && html`<${Failure} of=${job.failure} open />`}
    ${step.items && html`<${FlowItems} key=${at} at=${at} items=${step.items} changed=${changed} />`}
  </section>`;
}

const MAX_NAMES = 20;
const FOLDED_ROWS = 100;

function Needs({ names, onChoose }) {
  const more = names.length - MAX_NAMES;
  return html`${names.slice(0, MAX_NAMES).map((name) => html`<button key=${name} type="button" class="quiet link"
    onClick=${() => onChoose(name)}>${name}</button> `)}${more > 0 && `and ${more} more`}`;
}

function Retry({ step, job, changed }) {
  const { may } = useSession();
  if (step.status !== "dead" || !job?.can.includes("retry") || !may("operator", "jobs")) return null;
  const run = async () => {
    await post(`jobs/${segment(job.id)}/retry`);
    await changed();
    return `${step.name} is put back to work, and what depends on it.`;
  };
  return html`<${ActionButton} icon="retrying" run=${run}>Retry this step<//>`;
}

const SKIPPABLE = new Set([
  "waiting", "pending", "scheduled", "retrying", "running", "paused", "dead", "cancelled",
]);
const MAX_REASON_CHARACTERS = 200;

/** A button that lets the flow go on without the step, after a question. */
function Skip({ flow, step, changed }) {
  const { may } = useSession();
  const [asking, ask] = useState(false);
  const [reason, set] = useState("");
  const open = !flow.stopping && flow.job.shown !== "completed";
  if (!open || !SKIPPABLE.has(step.status) || !may("operator", "flows")) return null;
  const run = async () => {
    await post(`flows/${segment(flow.job.id)}/skip`, { step: step.name, reason: reason.trim() });
    return step.status === "running" ? `${step.name} is told to stop.` : `${step.name} is skipped.`;
  };
  return html`<button type="button" onClick=${() => ask(true)}><${Icon} name="skipped" />Skip</button>
    ${asking && html`<${FormDialog} title=${`Skip ${step.name}?`} action="Skip step" dismiss="Back" danger
        run=${withToast(run, changed)} onClose=${() => ask(false)}>
      <p>The flow goes on without it, as if it were optional: steps that need its value are skipped, unless they accept
        that there is none. If it runs, it is interrupted first.</p>
      <${Field} label="Reason" value=${reason} onValue=${set} maxlength=${MAX_REASON_CHARACTERS} autofocus
        hint="Kept with the step." />
    <//>`}`;
}

const ENDED = new Set(["completed", "dead", "cancelled"]);

/** A button that makes a new flow which begins at the step, after a question. */
function Replay({ flow, step }) {
  const { may } = useSession();
  const [asking, ask] = useState(false);
  if (!ENDED.has(flow.job.shown) || !may("operator", "flows")) return null;
  const run = async () => {
    const made = await post(`flows/${segment(flow.job.id)}/replay`, { from: step.name });
    go(flowLink(made.id));
    return "This is the new flow.";
  };
  return html`<button type="button" onClick=${() => ask(true)}><${Icon} name="retrying" />Replay from here</button>
    ${asking && html`<${FormDialog} title=${`Replay from ${step.name}?`} action="Replay" dismiss="Back"
        run=${withToast(run)} onClose=${() => ask(false)}>
      <p>A new flow runs this step and all that depend on it. It takes the others over as they ended, with their values.
        This flow stays as it is.</p>
    <//>`}`;
}

/** The steps of a node that has several. */
export function FoldedSteps({ node, steps, onChoose, onClose }) {
  const [shown, showMore] = useRowLimit(node.id, FOLDED_ROWS, FOLDED_ROWS);
  return html`<section class="card flow-step" aria-label="Folded steps">
    <div class="row"><h2>${foldedName(node)}</h2>
      <button class="quiet" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button></div>
    <ol class="flow-folded">${node.steps.slice(0, shown).map((name) => html`<li key=${name}>
      <${StepState} of=${steps.get(name).status} />
      <button type="button" class="quiet link" onClick=${() => onChoose(name)}>${name}</button></li>`)}</ol>
    ${node.steps.length > shown && html`<${LoadMore} onMore=${showMore} />`}
  </section>`;
}
