// The live log of a job's runs. It follows the newest line until the viewer scrolls up.
import { get, segment } from "../api.js";
import { clockTime, count, local, plural } from "../format.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../html.js";
import { CopyButton } from "./copy_button.js";
import { Icon } from "./icons.js";

const PAGE_LINES = 1000; // of one request
const RENDERED_LINES = 300; // at first
const MAX_EVENT_CHARACTERS = 1000; // the feed cuts longer lines
const LEVELS = [[50, "critical"], [40, "error"], [30, "warning"], [20, "info"], [-Infinity, "debug"]];
const level = (n) => LEVELS.find(([from]) => n >= from)[1];

/**
 * The log lines of one run, or of all runs, starting with the newest. The page calls `eventHandler.current` with each
 * log event of the feed; `version` changes with the job: then lines that the feed dropped are loaded.
 */
export function Log({ id, runs, run, eventHandler, version, following }) {
  const { lines, from, error, catchUp, earlier, onEvent } = useLines(id, runs, run);
  eventHandler.current = onEvent;
  useEffect(() => void catchUp(), [version]);
  const [drawn, draw] = useState(RENDERED_LINES);
  const place = useRef(null);
  const scroll = useScroll(place, lines);
  const shown = lines.slice(-(drawn + scroll.missed)); // lines stay rendered while the viewer reads them
  const more = lines.length > shown.length || (!run && from > 1);
  const back = () =>
    (lines.length > shown.length ? draw(drawn + RENDERED_LINES) : (draw(drawn + PAGE_LINES), earlier()));
  return html`<section class="card log" aria-label="Log">
    <div class="row"><h2>${run ? `Log of run ${run}` : "Log"}</h2>
      <span class="muted">${lines.length > 0 && plural(lines.length, "line")}
        ${following && lines.length > 0 && !scroll.away && " · following"}</span>
      ${lines.length > 0 && html`<${CopyButton} text=${() => lines.map(lineText).join("\n")} name="the log" />`}</div>
    ${error && html`<p class="error" role="alert">${error.message}</p>`}
    <div class="log-place">
      <div class="log-lines" role="log" aria-live=${following ? "polite" : "off"} aria-label="Log lines" tabindex="0"
        ref=${place} onScroll=${scroll.moved}>
        ${more && html`<button type="button" class="quiet" onClick=${back}>Load earlier</button>`}
        ${!lines.length && html`<p class="muted">${emptyText(run, from, following)}</p>`}
        ${shown.map((line, n) => html`
          ${!run && (n ? shown[n - 1].run !== line.run : runs > 1)
            && html`<p key=${`run-${line.run}`} class="log-run">Run ${line.run}</p>`}
          <${Line} key=${`${line.run}.${line.n}`} line=${line} />`)}
      </div>
      ${scroll.away && html`<button type="button" class="primary newest" onClick=${scroll.down}><${Icon} name="down" />
        Jump to newest${scroll.missed > 0 ? ` (${count(scroll.missed)} new)` : ""}</button>`}
    </div>
  </section>`;
}

function emptyText(run, from, following) {
  if (run) return "This run logged nothing.";
  if (from > 1) return `Run ${from} logged nothing.`;
  const words = following ? "No log lines yet." : "No log lines.";
  return html`${words} A task writes here with <code>ctx.log.info("…")</code>.`;
}

function Line({ line }) {
  const word = level(line.level);
  const at = Date.parse(line.at);
  return html`<div class=${`log-line log-${word}`} data-line=${`${line.run}.${line.n}`}>
    <time datetime=${line.at} title=${local(at)}>${clockTime(at)}</time>
    <b>${word}</b><span>${line.text}</span></div>`;
}

const lineText = (line) => `${line.at} ${level(line.level)} ${line.text}`;
const isAfter = (line, other) => line.run > other.run || (line.run === other.run && line.n > other.n);

function useLines(id, runs, run) {
  const begin = run ?? Math.max(1, runs);
  const start = useRef(begin);
  const [state, set] = useState({ lines: [], from: begin, error: null });
  const known = useRef([]);
  const busy = useRef(null);
  const first = useRef(true); // the log of most jobs fits into one page
  const alive = useRef(true);
  useEffect(() => () => void (alive.current = false), []);
  const setLines = (lines, change = {}) => {
    known.current = lines;
    if (alive.current) set((before) => ({ ...before, error: null, ...change, lines }));
  };
  const add = (lines) => {
    const last = known.current.at(-1);
    const fresh = lines.filter((line) => (!last || isAfter(line, last)) && (!run || line.run === run));
    if (fresh.length) setLines([...known.current, ...fresh]);
  };
  const fetchFirst = async () => {
    const page = await get(`jobs/${segment(id)}/logs`, { limit: PAGE_LINES });
    if (!page.next) setLines(page.items, { from: 1 });
    first.current = false;
  };
  const fetchNew = async () => {
    if (first.current && !run) await fetchFirst();
    for (let next = true; next && alive.current;) {
      const last = known.current.at(-1);
      const after = last ? `${last.run}.${last.n}` : `${start.current}.0`;
      const page = await get(`jobs/${segment(id)}/logs`, { after, limit: PAGE_LINES });
      add(page.items);
      next = page.next && !(run && page.items.at(-1).run > run);
    }
  };
  // One request at a time: it, or the next one, includes the lines that arrive meanwhile.
  const catchUp = () => (busy.current ??= fetchNew()
    .catch((error) => alive.current && set((before) => ({ ...before, error })))
    .finally(() => (busy.current = null)));
  const earlier = async () => {
    try {
      for (let from = state.from - 1, found = []; from >= 1 && !found.length; from--) {
        const page = await get(`jobs/${segment(id)}/logs`, { after: `${from}.0`, limit: PAGE_LINES });
        found = page.items.filter((line) => line.run === from);
        setLines([...found, ...known.current], { from });
      }
    } catch (error) {
      set((before) => ({ ...before, error }));
    }
  };
  const onEvent = (event) => {
    const { line } = event, last = known.current.at(-1);
    const next = last && !event.left_out && (line.run === last.run ? line.n === last.n + 1 : line.n === 1);
    if (next && !busy.current && line.text.length <= MAX_EVENT_CHARACTERS) add([line]);
    else if (!last || isAfter(line, last)) catchUp();
  };
  return { ...state, catchUp, earlier, onEvent };
}

/** Scrolls to the end, unless the viewer has scrolled up. Loading earlier lines does not move the visible ones. */
function useScroll(place, lines) {
  const [left, set] = useState(null); // the last line at that time
  const before = useRef({});
  useLayoutEffect(() => {
    const box = place.current, first = box.querySelector(".log-line")?.dataset.line;
    if (left === null) box.scrollTop = box.scrollHeight;
    else if (first !== before.current.first) box.scrollTop += box.scrollHeight - before.current.height;
    before.current = { first, height: box.scrollHeight };
  });
  const moved = () => {
    const box = place.current;
    if (!box) return; // a scroll of a page that was left
    const end = box.scrollHeight - box.scrollTop - box.clientHeight < 24;
    if (end !== (left === null)) set(end ? null : lines.at(-1));
  };
  const missed = left === null ? 0 : lines.filter((line) => isAfter(line, left)).length;
  return { away: left !== null, missed, moved, down: () => set(null) };
}
