// A schedule's ticks, newest first: the outcome of each, and its job.
import { duration, local, plural } from "../format.js";
import { html, useState } from "../html.js";
import { useData } from "../live.js";
import { go, jobLink, link, scheduleLink, useRoute } from "../route.js";
import { Icon } from "./icons.js";
import { Loaded } from "./page.js";
import { State } from "./state.js";
import { tickState, reasonWords, loadTicks } from "./ticks.js";
import { Span, Time } from "./time.js";

const NARROW = "(max-width: 640px)";
const pageRows = () => (matchMedia(NARROW).matches ? 15 : 50);
const ID_CHARACTERS = 18; // enough to distinguish the jobs of one machine

/** Reloaded when `version` changes. The page of the history is `before` in the URL. */
export function TickHistory({ name, version }) {
  const before = useRoute().query.get("before");
  const [rows] = useState(pageRows);
  const data = useData((signal) => loadTicks(name, { limit: rows, before }, signal), [name, before, version]);
  const turn = (to) => go(link(scheduleLink(name), { before: to }));
  return html`<section><div class="row history-head"><h2>History</h2>
      <a href=${link("jobs", { schedule: name })}>All jobs</a></div>
    <${Loaded} data=${data}>${({ ticks, jobs }) => (ticks.length
      ? html`<div class="table"><table>
          <thead><tr>
            <th scope="col">Tick</th><th scope="col">Outcome</th><th scope="col">Why</th>
            <th scope="col">Job</th><th scope="col">Decided</th><th scope="col">Took</th></tr></thead>
          <tbody>${ticks.map((tick) => html`
            <${Row} key=${tick.n} tick=${tick} job=${jobs.get(tick.job_id)} />`)}</tbody></table></div>
        <nav class="pager" aria-label="Pages of the history">
          <span class="muted">The newest 1,000 records are kept.</span>
          ${before && html`<button onClick=${() => turn("")}><${Icon} name="back" /> Newest</button>`}
          ${ticks.length === rows
            && html`<button onClick=${() => turn(ticks.at(-1).n)}>Older <${Icon} name="next" /></button>`}</nav>`
      : html`<p class="muted">${before ? "No older ticks are kept." : "No ticks yet."}</p>`)}<//>
  </section>`;
}

function Row({ tick, job }) {
  const state = tickState(tick, job);
  const asked = tick.reason === "by_hand" || tick.reason === "backfill";
  const late = (Date.parse(tick.seen_at) - Date.parse(tick.at)) / 1000;
  return html`<tr>
    <td data-label="Tick"><div>${local(tick.at)}${tick.last_at && html` to ${local(tick.last_at)}`}${" "}
      <span class="muted nowrap">${tick.last_at
        ? plural(tick.count, "tick") : html`<${Time} at=${tick.at} />`}</span></div></td>
    <td data-label="Outcome"><${State} of=${state} word=${state === "fired" ? "fired" : state} /></td>
    <td data-label="Why" class=${tick.reason || job?.error ? "" : "blank"}>
      ${job?.error ? html`<span class="history-error">${job.message}</span>` : reasonWords(tick.reason ?? "")}</td>
    <td data-label="Job">${tick.job_id ? jobCell(tick, job) : html`<span class="muted">none</span>`}</td>
    <td data-label="Decided" class=${asked || late >= 1 ? "nowrap" : "nowrap blank"}>
      ${asked ? html`<${Time} at=${tick.seen_at} />` : late >= 1 ? `${duration(late)} later` : "on time"}</td>
    <td data-label="Took" class=${job?.started_at ? "" : "blank"}>
      ${job?.started_at
        ? html`<${Span} from=${job.started_at} until=${job.finished_at} />`
        : html`<span class="muted">–</span>`}</td>
  </tr>`;
}

function jobCell(tick, job) {
  return html`<a href=${jobLink(tick.job_id)} class="code nowrap">${tick.job_id.slice(0, ID_CHARACTERS)}</a>
    ${!job && html` <span class="muted">no longer kept</span>`}`;
}
