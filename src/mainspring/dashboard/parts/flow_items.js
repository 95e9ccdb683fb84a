// The items of a map, in pages, by state.
import { get } from "../api.js";
import { count } from "../format.js";
import { html, useState } from "../html.js";
import { useData } from "../live.js";
import { jobLink } from "../route.js";
import { Columns } from "./columns.js";
import { Pager } from "./load_more.js";
import { ErrorNotice } from "./page.js";
import { RowActions } from "./row_actions.js";
import { Progress } from "./progress.js";
import { State, STATES } from "./state.js";
import { itemWords } from "./step_state.js";
import { Span } from "./time.js";

const PAGE_ITEMS = 20;
const FOUND_ITEMS = 200; // looked for at once by state, and shown if there are that many
const MAX_REQUESTS = 25; // until an item of a state is found
const LIVE_SECONDS = 2;

/** A page of items. The API looks at some pages for items of a state, and says where to go on if it found few. */
async function load(at, state, after, signal) {
  let page = { items: [], next: after };
  for (let n = 0; n < MAX_REQUESTS && !page.items.length && page.next !== null; n += 1) {
    page = await get(at, { limit: state ? FOUND_ITEMS : PAGE_ITEMS, state, after: page.next }, signal);
  }
  return page;
}

/** `at` is the path of the step in the API, `items` are its counts. */
export function FlowItems({ at, items, changed }) {
  const [state, setState] = useState("");
  const [pages, setPages] = useState([]); // cursors of the pages before, and of this one
  const after = pages.at(-1);
  const data = useData((signal) => load(`${at}/items`, state, after, signal), [at, state, after], {
    every: items.open ? LIVE_SECONDS : 0,
  });
  const filter = (event) => (setState(event.target.value), setPages([]));
  const done = () => (data.reload(), changed());
  const found = data.value?.items ?? [];
  return html`<div class="flow-items">
    <div class="row"><h3>Items</h3><span class="muted">${itemWords(items)}</span>
      <label class="sort"><span>State</span><select value=${state} onInput=${filter}>
        <option value="">all</option>
        ${STATES.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label></div>
    ${data.error && html`<${ErrorNotice} error=${data.error} retry=${data.reload} />`}
    ${!found.length && !data.loading && html`<p class="muted">No item ${state ? `is ${state}` : "yet"}.</p>`}
    ${found.length > 0 && html`<div class="table"><table><caption class="unseen">Items</caption>
      <${Columns} of=${["#Item", "State", "#Took", ""]} />
      <tbody>${found.map((job) => html`<tr key=${job.id}>
        <td data-label="Item" class="number"><a href=${jobLink(job.id)}>${count(job.index)}</a></td>
        <td data-label="State"><div><${State} of=${job.outcome ?? job.shown} />
          ${job.shown === "running" && job.progress && html`<${Progress} of=${job.progress} />`}
          ${job.message && job.shown !== "completed" && html`
            <span class="job-error" title=${job.message}>${job.message}</span>`}</div></td>
        <td data-label="Took" class="number">${job.started_at && (job.finished_at || job.shown === "running")
          ? html`<${Span} from=${job.started_at} until=${job.finished_at} />`
          : html`<span class="muted">–</span>`}</td>
        <td data-label="" class="tight"><${RowActions} job=${job} only=${["retry", "cancel"]} words=${false}
          onDone=${done} /></td></tr>`)}</tbody></table></div>`}
    <${Pager} name="items" pages=${pages} setPages=${setPages} next=${data.value?.next} />
  </div>`;
}
