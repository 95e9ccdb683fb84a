// A group of dead jobs: one task, one error.
import { get, segment } from "../api.js";
import { stringify } from "../lossless_json.js";
import { count, plural } from "../format.js";
import { html, useState } from "../html.js";
import { useData } from "../live.js";
import { jobLink, link } from "../route.js";
import { ActionButton } from "./action_button.js";
import { Failure } from "./failure.js";
import { Icon } from "./icons.js";
import { Redrive } from "./job_edit.js";
import { Loaded } from "./page.js";
import { Time } from "./time.js";

const MAX_JOBS = 10;

export function DeadGroup({ group, may, ask, onChanged }) {
  const [open, show] = useState(false);
  const choice = { filter: { states: ["dead"], tasks: [group.task], errors: [group.error] } };
  const what = `${plural(group.count, "dead job")} of ${group.task}`;
  const name = `${group.task}: ${group.error}`;
  const edited = async () => {
    const { payload } = await get(`jobs/${segment(group.newest)}`);
    ask({ action: "redrive_edited", what, choice, example: isObject(payload) ? payload : undefined });
  };
  return html`<section class="card dead-group" aria-label=${name}>
    <div class="dead-head" onClick=${(event) => isOnHead(event) && show(!open)}>
      <button class="quiet fold" aria-expanded=${open} aria-label=${`${open ? "Collapse" : "Expand"} ${name}`}
        onClick=${() => show(!open)}><${Icon} name=${open ? "down" : "next"} /></button>
      <div class="dead-words"><h2><span class="state state-dead"><${Icon} name="dead" />${group.error}</span></h2>
        ${group.message !== group.error && html`<p>Newest: ${group.message}</p>`}
        <p class="muted"><a href=${link("jobs", { state: "dead", task: group.task })}>${group.task}</a>${" "}
          · last <${Time} at=${group.last_at} /></p></div>
      <a class="dead-count number" href=${jobsLink(group)}>
        ${count(group.count)}<span>${group.count === 1 ? "job" : "jobs"}</span></a>
      ${may && html`<div class="row">
        <button onClick=${() => ask({ action: "redrive", what, choice })}><${Icon} name="retrying" /> Redrive</button>
        <${ActionButton} icon="edit" title="Redrive with changed arguments" run=${edited}>Edit and redrive all<//>
        <button class="quiet" aria-label=${`Delete these ${count(group.count)}`} title="Delete"
          onClick=${() => ask({ action: "delete", what, choice })}><${Icon} name="trash" /></button></div>`}
    </div>
    ${open && html`<${GroupDetails} group=${group} may=${may} onChanged=${onChanged} />`}
  </section>`;
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
/** Whether a click is on the header itself: not on a control in it, nor the end of a text selection. */
const isOnHead = (event) => !event.target.closest("a, button") && !getSelection()?.toString();

const jobsLink = (group) => link("jobs", { state: "dead", task: group.task, error: group.error });

function GroupDetails({ group, may, onChanged }) {
  const [edited, edit] = useState(null);
  const newest = useData((signal) => get(`jobs/${segment(group.newest)}`, {}, signal), [group.newest]);
  const { task, error, count: size } = group;
  const some = useData(
    (signal) => get("jobs", { state: "dead", task, error, limit: MAX_JOBS, full: true }, signal), [task, error, size],
  );
  return html`<div class="dead-inside">
    <${Loaded} data=${newest}>${(job) => job.failure && html`<${Failure} of=${job.failure} open messageShown />`}<//>
    <${Loaded} data=${some}>${(page) => html`<div class="table"><table>
      <thead><tr>
        <th scope="col">Job</th><th scope="col">Arguments</th><th scope="col">Died</th>
        <th scope="col" class="number">Attempts</th>
        ${may && html`<th scope="col"><span class="unseen">Actions</span></th>`}</tr></thead>
      <tbody>${page.items.map((item) => html`<tr key=${item.id}>
        <td data-label="Job"><a href=${jobLink(item.id)}><code>${item.id}</code></a></td>
        <td data-label="Arguments"><code class="clip">${stringify(item.job?.payload)}</code></td>
        <td data-label="Died" class="nowrap"><${Time} at=${item.finished_at} /></td>
        <td data-label="Attempts" class="number">${item.attempt}</td>
        ${may && html`<td data-label="" class="tight">
          <${ActionButton} icon="edit"
            run=${async () => edit(await get(`jobs/${segment(item.id)}`))}>Edit and redrive<//></td>`}
      </tr>`)}</tbody></table></div>
      ${page.next && html`<p><a href=${jobsLink(group)}>All ${count(group.count)} jobs</a></p>`}`}<//>
    ${edited && html`<${Redrive} job=${edited} onClose=${() => edit(null)} onDone=${onChanged} />`}
  </div>`;
}
