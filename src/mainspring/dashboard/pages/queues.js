// /queues: all queues: their jobs, waits, workers and pauses.
import { now } from "../clock.js";
import { count, duration, plural } from "../format.js";
import { html, useMemo, useRef } from "../html.js";
import { useData } from "../live.js";
import { Columns } from "../parts/columns.js";
import { depthsOf, loadDepth } from "../parts/queue_depth.js";
import { Icon } from "../parts/icons.js";
import { LoadMore, useRowLimit } from "../parts/load_more.js";
import { Empty, Head, Loaded } from "../parts/page.js";
import { JobsFigure, loadQueues, PauseButton, Paused, queueLink, QueueService } from "../parts/queue.js";
import { Sparkline } from "../parts/sparkline.js";
import { Span } from "../parts/time.js";
import { useWindow, WindowChoice, WINDOWS } from "../parts/stats_window.js";
import { go, link, useRoute } from "../route.js";
import { useSession } from "../session.js";

const FOLLOWED = { type: ["queue.paused", "queue.resumed", "worker.started", "worker.stopped", "worker.changed"] };
const MIN_SEARCH_QUEUES = 15; // with more queues there is a search field
const EXAMPLE = `@app.task(queue="mail")
async def send(to: str): ...

await send.enqueue("ada@example.com")`;

export function Queues() {
  const session = useSession();
  const window = useWindow();
  const known = useRef(new Set());
  const load = (signal) => loadQueues(session, window, known.current, signal);
  const data = useData(load, [window, session], { live: FOLLOWED, every: 3 });
  const past = useData((signal) => loadDepth({ window }, signal), [window], { every: 30 }).value;
  return html`<${Head} title="Queues" actions=${html`<${WindowChoice} path="queues" value=${window} />`} />
    <${Loaded} data=${data}>${(rows) => (rows.length
      ? html`<${Warnings} rows=${rows} /><${Table} rows=${rows} past=${past} window=${window} after=${data.reload} />`
      : html`<${Empty} title="No queue holds a job" code=${EXAMPLE}>A queue is created by its first job.<//>`)}<//>`;
}

const pronoun = (rows) => (rows.length > 1 ? "them" : "it");

/** One warning for all queues that are blocked for the same reason. */
function Warnings({ rows }) {
  const stuck = rows.filter((row) => row.blocked && row.pending + row.retrying);
  const alone = stuck.filter((row) => !row.service.all.length), drained = stuck.filter((row) => row.service.all.length);
  const names = alone.map((row) => row.name).join(",");
  return html`${alone.length > 0 && html`<${Warning} rows=${alone}>
      no worker serves ${pronoun(alone)}. Start one:${" "}
      <code>mainspring worker MODULE:ATTR --queues ${names}</code><//>`}
    ${drained.length > 0 && html`<${Warning} rows=${drained}>
      all workers that serve ${pronoun(drained)} are drained. <a href="workers">Resume one</a>.<//>`}`;
}

function Warning({ rows, children }) {
  const jobs = rows.reduce((sum, row) => sum + row.pending + row.retrying, 0);
  const names = rows.map((row) => row.name).join(", ");
  return html`<p class="notice" role="status"><${Icon} name="warning" />
    <span><b>${names}</b> ${rows.length > 1 ? "hold" : "holds"} ${plural(jobs, "job")}, and${" "}
      ${children}</span></p>`;
}

function Table({ rows, past, window, after }) {
  const { query } = useRoute();
  const find = query.get("find") ?? "";
  const shown = useMemo(() => rows.filter((row) => row.name.toLowerCase().includes(find.toLowerCase())), [rows, find]);
  const look = (event) =>
    go(link("queues", { ...Object.fromEntries(query), find: event.target.value }), { replace: true });
  const [words, seconds] = WINDOWS[window];
  const [rowsShown, showMore] = useRowLimit(find, 15, 100);
  return html`${rows.length > MIN_SEARCH_QUEUES && html`<p>
    <input type="search" aria-label="Find a queue" placeholder="Find a queue" value=${find} onInput=${look} /></p>`}
    <div class="table queues"><table>
    <${Columns} of=${["Queue", "Depth", "#Pending", "#Oldest", "#Running", "#Retrying", "#Scheduled",
      "#Wait p50 / p95", `#Runs in ${words}`, "#Failed", "Workers", ""]} />
    <tbody>${shown.slice(0, rowsShown).map((row) => html`<${Row} key=${row.name} row=${row} past=${past}
      words=${words} seconds=${seconds} after=${after} />`)}</tbody>
  </table></div>
  ${shown.length > rowsShown && html`<${LoadMore} onMore=${showMore} />`}
  ${!shown.length && html`<p class="muted">No queue has “${find}” in its name.</p>`}`;
}

function Row({ row, past, words, seconds, after }) {
  const { name, figures } = row;
  const of = (state) => html`<${JobsFigure} n=${row[state]} queue=${name} state=${state}>${count(row[state])}<//>`;
  return html`<tr>
    <td data-label="" class="name"><span class="queue-name"><a href=${queueLink(name)} title=${name}>
      <b>${name}</b></a>${row.paused && html`<${Paused} queue=${row} />`}</span></td>
    <td class="tight" data-label="Depth">${past && html`<${Depth} past=${past} row=${row} words=${words}
      seconds=${seconds} />`}</td>
    <td class="number" data-label="Pending">${of("pending")}</td>
    <td class="number less" data-label="Oldest">${row.oldest ? html`<${Span} from=${row.oldest} />` : html`<span
      class="muted">–</span>`}</td>
    <td class="number less" data-label="Running">${of("running")}</td>
    <td class="number less" data-label="Retrying">${of("retrying")}</td>
    <td class="number less" data-label="Scheduled">${of("scheduled")}</td>
    <td class="number" data-label="Wait p50 / p95">
      ${duration(figures?.wait_p50)} / ${duration(figures?.wait_p95)}</td>
    <td class="number" data-label="Runs">
      ${count(figures?.runs)}</td>
    <td class="number less" data-label="Failed"><span
      class=${figures?.failed ? "bad" : "muted"}>${count(figures?.failed)}</span></td>
    <td data-label="Workers"><${QueueService} of=${row} /></td>
    <td class="tight" data-label=""><${PauseButton} queue=${row} after=${after} /></td>
  </tr>`;
}

/** The number of pending jobs over time, and now. */
function Depth({ past, row, words, seconds }) {
  const until = now() / 1000;
  const depths = depthsOf(past, "pending", row.name);
  const points = [...past.map(({ at }, n) => [at, depths[n]]), [until, row.pending]];
  const most = Math.max(...points.map(([, value]) => value ?? 0));
  const label = `Jobs pending in ${row.name} in the last ${words}: up to ${count(most)}, now ${count(row.pending)}`;
  return html`<${Sparkline} points=${points} from=${until - seconds} until=${until} label=${label} />`;
}
