// The state of a flow's step, and how far it is, in a few words.
import { endedItems } from "../flow_layout.js";
import { count } from "../format.js";
import { html } from "../html.js";
import { Icon } from "./icons.js";
import { MEANING } from "./state.js";
import { Span } from "./time.js";

export const STEP_MEANING = {
  ...MEANING, waiting: "waiting for other steps", skipped: "was not needed",
  not_run: "something that it needs has failed",
};

/** A state as people read it. */
export const stateWord = (state) => state.replace("_", " ");

export function StepState({ of: state }) {
  return html`<span class=${`state state-${state}`} title=${STEP_MEANING[state]}>
    <${Icon} name=${state} />${stateWord(state)}</span>`;
}

/** The name of a node with several steps. */
export const foldedName = ({ steps }) => `${count(steps.length)} steps: ${steps[0]} … ${steps.at(-1)}`;

/** "17 of 40 items · 2 dead"; "17 of 40+" while more are made. */
export function itemWords(items) {
  const { made, total, dead } = items;
  const more = total === null ? "+" : "";
  return `${count(endedItems(items))} of ${count(total ?? made)}${more} items${dead ? ` · ${count(dead)} dead` : ""}`;
}

/** When a step began; a flow in a step with its release, since its own job runs to be planned and to be concluded. */
export const startOf = (step) => (step.kind === "flow" ? step.released_at : step.started_at);
const hasRun = (step) => startOf(step) && (step.finished_at || step.status === "running");

/** How long a step has run; null if it has not. */
export function StepSpan({ step }) {
  if (!hasRun(step)) return null;
  return html`<${Span} from=${startOf(step)} until=${step.finished_at} />`;
}

/** "skipped: everything that it needs was skipped", without the name of the step before it. */
export const notRunWords = ({ name, status, reason }) =>
  (reason?.startsWith(`${name} was `) ? reason.slice(name.length + 5) : reason ?? STEP_MEANING[status]);

/** The reason why a step was not run; else its items, or its queue and how long it took. */
export function StepNote({ step }) {
  if (step.status === "skipped" || step.status === "not_run") return notRunWords(step);
  if (step.items) return itemWords(step.items);
  return html`${step.queue}${hasRun(step) && html` · <${StepSpan} step=${step} />`}`;
}
