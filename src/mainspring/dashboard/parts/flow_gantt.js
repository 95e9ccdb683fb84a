// The steps of a flow over time: thin bars while they wait for a worker, solid ones while they run.
import { useNow } from "../clock.js";
import { stepSpans } from "../flow_layout.js";
import { clockTime, duration, localAndUtc } from "../format.js";
import { html } from "../html.js";
import { Icon } from "./icons.js";
import { LoadMore, useRowLimit } from "./load_more.js";
import { stateWord } from "./step_state.js";

const ROWS = 60;
const MARKS = [0, 0.25, 0.5, 0.75, 1];

export function FlowGantt({ flow, chosen, onChoose }) {
  const now = useNow();
  const [shown, showMore] = useRowLimit(flow.job.id, ROWS, ROWS);
  const spans = stepSpans(flow, now);
  if (!spans.length) return html`<p class="muted">No step has been released yet.</p>`;
  const begin = Date.parse(flow.planned_at);
  const all = Math.max(1, ...spans.map((span) => span.until - begin));
  const percent = (at) => `${(100 * Math.max(0, at - begin)) / all}%`;
  const later = flow.steps.length - spans.length;
  return html`<div class="flow-gantt">
    <div class="flow-gantt-marks" aria-hidden="true"><div>${MARKS.map((mark) => html`<span key=${mark}
      style=${{ left: `${100 * mark}%` }} title=${localAndUtc(begin + mark * all)}>
      ${mark ? `+${duration((mark * all) / 1000)}` : clockTime(begin)}</span>`)}</div></div>
    <ol aria-label="Steps over time">${spans.slice(0, shown).map((span) => html`<${Row} key=${span.step.name}
      span=${span} percent=${percent} chosen=${chosen === span.step.name} onChoose=${onChoose} />`)}</ol>
    ${spans.length > shown && html`<${LoadMore} onMore=${showMore} />`}
    <p class="muted small">Thin: waiting for a worker.${" "}
      ${spans.some((span) => span.about) && "Hatched: a map, from the steps before and after it. "}
      ${later > 0 && `${later} more ${later === 1 ? "step was" : "steps were"} not released.`}</p>
  </div>`;
}

function Row({ span: { step, released, started, until, about, open }, percent, chosen, onChoose }) {
  const ran = duration(Math.max(0, until - started) / 1000), waited = duration(Math.max(0, started - released) / 1000);
  const words = `${stateWord(step.status)}${about ? ", about" : open ? ", for" : ","} ${ran}`;
  const title = `${step.name}: ${words}${about ? "" : `, after a wait of ${waited}`}`;
  const bar = (look, from, to) => html`<i class=${look}
    style=${{ left: percent(from), width: `calc(${percent(to)} - ${percent(from)})` }}></i>`;
  return html`<li>
    <button type="button" class="quiet" aria-pressed=${chosen} title=${title} onClick=${() => onChoose(step.name)}>
      <i class=${`state state-${step.status}`}><${Icon} name=${step.status} size=${14} /></i>
      <span>${step.name}</span><span class="unseen">${words}</span></button>
    <span class=${`flow-gantt-track state-${step.status}`} title=${title}>
      ${started > released && bar("flow-gantt-wait", released, started)}
      ${bar(about ? "flow-gantt-run flow-gantt-about" : "flow-gantt-run", started, until)}</span>
    <span class="number muted" aria-hidden="true">${ran}</span></li>`;
}
