// The log of a job's runs, live: it follows the newest line until the viewer scrolls up.
import { get, segment } from "../api.js";
import { clockTime, count, local, plural } from "../format.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../html.js";
import { Copy } from "./copy.js";
import { Icon } from "./icons.js";

// Lines asked for at once, and lines drawn at first; and characters beyond which the feed cuts a line.
const PAGE = 1000, DRAWN = 300, CUT = 1000;
const LEVELS = [[50, "critical"], [40, "error"], [30, "warning"], [20, "info"], [-Infinity, "debug"]];
const level = (n) => LEVELS.find(([from]) => n >= from)[1];

/**
 * Those of one run, or of all from the newest on. `ear.current` is what the page tells of each notice of the feed;
 * `turn` changes when the job does, so that what the feed left out is looked for.
 */
export function Log({ id, runs, run, ear, turn, following }) {
  const { lines, from, error, catchUp, earlier, heard } = useLines(id, runs, run);
  ear.current = heard;
  useEffect(() => void catchUp(), [turn]);
  const [drawn, draw] = useState(DRAWN);
  const place = useRef(null);
  const scroll = useScroll(place, lines);
  const shown = lines.slice(-(drawn + scroll.missed)); // what is read does not go away while it is
  const more = lines.length > shown.length || (!run && from > 1);
  const back = () => (lines.length > shown.length ? draw(drawn + DRAWN) : (draw(drawn + PAGE), earlier()));
  return html`<section class="card log" aria-label="Log">
    <div class="row"><h2>${run ? `Log of run ${run}` : "Log"}</h2>
      <span class="muted">${lines.length > 0 && plural(lines.length, "line")}
        ${following && lines.length > 0 && !scroll.away && " · following"}</span>
      ${lines.length > 0 && html`<${Copy} text=${() => lines.map(written).join("\n")} name="the log" />`}</div>
    ${error && html`<p class="error" role="alert">${error.message}</p>`}
    <div class="log-place">
      <div class="log-lines" role="log" aria-live=${following ? "polite" : "off"} aria-label="Log lines" tabindex="0"
        ref=${place} onScroll=${scroll.moved}>
        ${more && html`<button type="button" class="quiet" onClick=${back}>Load earlier</button>`}
        ${!lines.length && html`<p class="muted">${nothing(run, from, following)}</p>`}
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

function nothing(run, from, following) {
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

const written = (line) => `${line.at} ${level(line.level)} ${line.text}`;
const after = (line, other) => line.run > other.run || (line.run === other.run && line.n > other.n);

function useLines(id, runs, run) {
  const begin = run ?? Math.max(1, runs);
  const start = useRef(begin);
  const [state, set] = useState({ lines: [], from: begin, error: null });
  const known = useRef([]);
  const busy = useRef(null);
  const first = useRef(true); // most jobs log so little that all of it comes at once
  const alive = useRef(true);
  useEffect(() => () => void (alive.current = false), []);
  const keep = (lines, change = {}) => {
    known.current = lines;
    if (alive.current) set((before) => ({ ...before, error: null, ...change, lines }));
  };
  const add = (lines) => {
    const last = known.current.at(-1);
    const fresh = lines.filter((line) => (!last || after(line, last)) && (!run || line.run === run));
    if (fresh.length) keep([...known.current, ...fresh]);
  };
  const whole = async () => {
    const page = await get(`jobs/${segment(id)}/logs`, { limit: PAGE });
    if (!page.next) keep(page.items, { from: 1 });
    first.current = false;
  };
  const fetched = async () => {
    if (first.current && !run) await whole();
    for (let next = true; next && alive.current;) {
      const last = known.current.at(-1);
      const after = last ? `${last.run}.${last.n}` : `${start.current}.0`;
      const page = await get(`jobs/${segment(id)}/logs`, { after, limit: PAGE });
      add(page.items);
      next = page.next && !(run && page.items.at(-1).run > run);
    }
  };
  // One request at a time: lines that come meanwhile are in it, or in the next.
  const catchUp = () => (busy.current ??= fetched()
    .catch((error) => alive.current && set((before) => ({ ...before, error })))
    .finally(() => (busy.current = null)));
  const earlier = async () => {
    try {
      for (let from = state.from - 1, found = []; from >= 1 && !found.length; from--) {
        const page = await get(`jobs/${segment(id)}/logs`, { after: `${from}.0`, limit: PAGE });
        found = page.items.filter((line) => line.run === from);
        keep([...found, ...known.current], { from });
      }
    } catch (error) {
      set((before) => ({ ...before, error }));
    }
  };
  const heard = (notice) => {
    const { line } = notice, last = known.current.at(-1);
    const next = last && !notice.left_out && (line.run === last.run ? line.n === last.n + 1 : line.n === 1);
    if (next && !busy.current && line.text.length <= CUT) add([line]);
    else if (!last || after(line, last)) catchUp();
  };
  return { ...state, catchUp, earlier, heard };
}

/** Stays at the end, unless the viewer has scrolled away; earlier lines do not move the visible ones. */
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
    const end = box.scrollHeight - box.scrollTop - box.clientHeight < 24;
    if (end !== (left === null)) set(end ? null : lines.at(-1));
  };
  const missed = left === null ? 0 : lines.filter((line) => after(line, left)).length;
  return { away: left !== null, missed, moved, down: () => set(null) };
}
