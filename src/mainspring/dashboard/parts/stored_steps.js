// What the durable steps of a job have stored, in pages.
import { get, segment } from "../api.js";
import { html, useState } from "../html.js";
import { useData } from "../live.js";
import { Columns } from "./columns.js";
import { JsonTree } from "./json_tree.js";
import { Pager } from "./load_more.js";
import { ErrorNotice } from "./page.js";
import { Time } from "./time.js";

const PAGE_STEPS = 20, RELOAD_SECONDS = 5;

/** Nothing if there is none. `version` changes with the job. */
export function StoredSteps({ id, version, following }) {
  const [pages, setPages] = useState([]);
  const after = pages.at(-1) ?? 0;
  const data = useData((signal) => get(`jobs/${segment(id)}/checkpoints`, { after, limit: PAGE_STEPS }, signal),
    [id, after, version], { every: following ? RELOAD_SECONDS : 0 });
  const steps = data.value?.items ?? [];
  if (!steps.length && !data.error) return null;
  return html`<section class="card" aria-label="Durable steps"><h2>Durable steps</h2>
    ${data.error && html`<${ErrorNotice} error=${data.error} retry=${data.reload} />`}
    <div class="table"><table><caption class="unseen">Durable steps</caption>
      <${Columns} of=${["Step", "Stored", "Value"]} />
      <tbody>${steps.map((step) => html`<tr key=${step.n}>
        <td data-label="Step">${step.name}</td><td data-label="Stored" class="tight"><${Time} at=${step.at} /></td>
        <td data-label="Value"><${JsonTree} value=${step.value} name=${step.name} depth=${3} /></td>
      </tr>`)}</tbody></table></div>
    <${Pager} name="durable steps" pages=${pages} setPages=${setPages} next=${data.value?.next} />
  </section>`;
}
