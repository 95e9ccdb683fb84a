// /dead: dead jobs in groups by error, with their redrive.
import { get } from "../api.js";
import { plural } from "../format.js";
import { html, useState } from "../html.js";
import { useData } from "../live.js";
import { BulkDialog } from "../parts/bulk.js";
import { DeadGroup } from "../parts/dead_group.js";
import { Icon } from "../parts/icons.js";
import { JOBS } from "../parts/job_bulk.js";
import { LoadMore, useRowLimit } from "../parts/load_more.js";
import { Empty, Head, Loaded } from "../parts/page.js";
import { go, link, useRoute } from "../route.js";
import { useSession } from "../session.js";

const FOLLOWED = { type: ["job.dead", "job.changed", "job.pruned"] };

export function Dead() {
  const session = useSession();
  const { query } = useRoute();
  const searched = query.get("search") ?? "";
  const [asked, ask] = useState(null);
  const data = useData((signal) => get("dead", { limit: 200 }, signal), [], { live: FOLLOWED });
  const all = data.value?.items ?? [];
  const found = all.filter((group) => matches(group, searched));
  const [shown, showMore] = useRowLimit(searched, 8, 30);
  const total = all.reduce((sum, group) => sum + group.count, 0);
  const may = session.may("operator", "dead");
  const every = { filter: { states: ["dead"] } };
  const redriveAll = () => ask({ action: "redrive", what: `all ${plural(total, "dead job")}`, choice: every });
  const actions = may && total > 0
    && html`<button onClick=${redriveAll}><${Icon} name="retrying" /> Redrive all</button>`;
  return html`
    <${Head} title="Dead letters" actions=${actions}>
      ${total > 0 && html`<span class="muted">${plural(total, "job")} in ${plural(all.length, "group")}</span>`}<//>
    <${Loaded} data=${data}>${() => !all.length ? html`<${Nothing} />` : html`
      <div class="row filters"><label class="unseen" for="searched">Search in tasks and errors</label>
        <input id="searched" type="search" placeholder="Search in tasks and errors" value=${searched}
          onInput=${(event) => go(link("dead", { search: event.target.value }), { replace: true })} /></div>
      <div class="stack">${found.slice(0, shown).map((group) => html`
        <${DeadGroup} key=${`${group.task} ${group.error}`} group=${group} may=${may} ask=${ask}
          onChanged=${data.reload} />`)}</div>
      ${!found.length && html`<p class="muted">No dead job matches “${searched}”.</p>`}
      ${found.length > shown && html`<${LoadMore} onMore=${showMore} />`}`}<//>
    ${asked && html`<${BulkDialog} kind=${JOBS} ...${asked} onDone=${data.reload} onClose=${() => ask(null)} />`}`;
}

const matches = ({ task, error, message }, searched) =>
  `${task} ${message} ${error}`.toLowerCase().includes(searched.trim().toLowerCase());

function Nothing() {
  return html`<${Empty} title="No dead jobs">
    <p>A job is dead when it is out of retries, or when another run cannot help. It is kept here with its arguments and
    its failure until it is redriven, or its retention ends.</p><//>`;
}
