// The steps of a flow as a table.
import { html } from "../html.js";
import { Columns } from "./columns.js";
import { LoadMore, useRowLimit } from "./load_more.js";
import { itemWords, notRunWords, startOf, StepSpan, StepState } from "./step_state.js";
import { Time } from "./time.js";

const ROWS = 100;
const COLUMNS = ["State", "Step", "Queue", "Needs", "#Attempt", "Started", "#Took", "Details"];

export function FlowTable({ flow, chosen, onChoose }) {
  const [shown, showMore] = useRowLimit(flow.job.id, 20, ROWS);
  return html`<div class="table flow-steps"><table><caption class="unseen">Steps</caption>
      <${Columns} of=${COLUMNS} />
      <tbody>${flow.steps.slice(0, shown).map((step) => html`<${Row} key=${step.name} step=${step}
        chosen=${step.name === chosen} onChoose=${onChoose} />`)}</tbody></table></div>
    ${flow.steps.length > shown && html`<${LoadMore} onMore=${showMore} />`}`;
}

function Row({ step, chosen, onChoose }) {
  return html`<tr class=${chosen ? "chosen" : ""}>
    <td data-label="State" class="tight"><${StepState} of=${step.status} /></td>
    <td data-label="" class="name"><button type="button" class="quiet link" aria-pressed=${chosen}
      onClick=${() => onChoose(step.name)}>${step.name}</button>
      ${step.task !== step.name && html` <span class="muted small">${step.task}</span>`}</td>
    <td data-label="Queue">${step.queue}</td>
    <td data-label="Needs">${step.needs.join(", ") || html`<span class="muted">–</span>`}</td>
    <td data-label="Attempt" class="number">${step.attempts || html`<span class="muted">–</span>`}</td>
    <td data-label="Started" class="nowrap"><${Time} at=${startOf(step)} /></td>
    <td data-label="Took" class="number"><${StepSpan} step=${step} /></td>
    <td data-label="Details">${details(step)}</td></tr>`;
}

function details(step) {
  const { failure } = step;
  return html`<div>
    ${step.items && itemWords(step.items)}
    ${failure && step.status !== "completed" && html`<div class="job-error">${failure.type}: ${failure.message}</div>`}
    ${step.reason && html`<div class="muted">${notRunWords(step)}</div>`}</div>`;
}
