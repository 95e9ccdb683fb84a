// The live feed, and pages that follow it: without flicker, and not while they are paused or out of sight.
import { address, onChange } from "./api.js";
import { useCallback, useEffect, useRef, useState } from "./html.js";
import { parse } from "./exact.js";
import { useSession } from "./session.js";

const TYPES = [
  "job.enqueued", "job.started", "job.completed", "job.retrying", "job.dead", "job.cancelled", "job.snoozed",
  "job.released", "job.expired", "job.lost", "job.changed", "job.progress", "job.log", "job.pruned",
  "schedule.fired", "schedule.passed", "schedule.paused", "schedule.changed", "queue.paused", "queue.resumed",
  "worker.started", "worker.stopping", "worker.stopped", "worker.changed", "leader.changed", "dropped", "reset",
];
// Milliseconds: between two loads for events, and between loads while there is no feed.
const AT_MOST = 1000;
const WITHOUT = 5000;
// A source that is silent for longer than this number of heartbeats is lost, though the browser has not noticed.
const HEARTBEATS = 2;

/** What the shell shows of it: "live", "connecting", "paused", or "stalled" for a reason. */
export const feed = { paused: false, state: "live", reason: "", listeners: new Set() };

function tell(change) {
  Object.assign(feed, change);
  feed.listeners.forEach((listener) => listener());
}

export const setPaused = (paused) => tell({ paused });

export function useFeed() {
  const [, redraw] = useState(0);
  useEffect(() => {
    const listener = () => redraw((n) => n + 1);
    feed.listeners.add(listener);
    return () => feed.listeners.delete(listener);
  }, []);
  return { paused: feed.paused, state: feed.paused ? "paused" : feed.state, reason: feed.reason };
}

function useVisible() {
  const [visible, set] = useState(!document.hidden);
  useEffect(() => {
    const changed = () => set(!document.hidden);
    document.addEventListener("visibilitychange", changed);
    return () => document.removeEventListener("visibilitychange", changed);
  }, []);
  return visible;
}

/**
 * Calls `heard` with each notice that meets the wish ({type, job, queue, task, schedule, state}, as the API's filters;
 * null: none), and `lost` when some are missing and everything is to be reloaded.
 */
export function useNotices(wish, heard, lost) {
  const { paused } = useFeed();
  const visible = useVisible();
  const calls = useRef({});
  calls.current = { heard, lost };
  const url = wish && !paused && visible ? address("events", wish).href : null;
  const may = useSession()?.sees("events");
  useEffect(() => {
    if (!url) return;
    if (may) return listen(url, (notice) => calls.current.heard(notice), () => calls.current.lost());
    const timer = setInterval(() => calls.current.lost(), WITHOUT);
    return () => clearInterval(timer);
  }, [url, may]);
}

// What each open source says, and why if it stands still. The badge shows the worst of them.
const sources = new Map();

function mark(key, state, reason = "") {
  if (state) sources.set(key, { state, reason });
  else sources.delete(key);
  const said = [...sources.values()];
  const worst = ["stalled", "connecting"].find((one) => said.some((source) => source.state === one)) ?? "live";
  tell({ state: worst, reason: said.find((source) => source.state === worst)?.reason ?? "" });
}

function listen(url, heard, lost) {
  const key = {};
  let source = null;
  let silence = null;
  let seconds = 0; // between two heartbeats; 0: an older server, which sends no such event
  const awake = () => {
    clearTimeout(silence);
    if (seconds) silence = setTimeout(reopen, 1000 * HEARTBEATS * seconds);
  };
  const open = (missed = false) => {
    source?.close();
    source = new EventSource(url);
    const on = (type, act) => source.addEventListener(type, (event) => (awake(), act(event)));
    source.onopen = () => (awake(), mark(key, "live"), missed && lost());
    source.onerror = () => (clearTimeout(silence), mark(key, "connecting"));
    on("stalled", (event) => mark(key, "stalled", parse(event.data).reason));
    on("resumed", () => mark(key, "live"));
    on("heartbeat", (event) => ((seconds = Number(parse(event.data).seconds)), awake()));
    for (const type of TYPES) {
      const lossy = type === "reset" || type === "dropped";
      on(type, (event) => (lossy ? lost() : heard(parse(event.data))));
    }
  };
  // The new source does not know the last number: what was missed is loaded. It has to speak in time, too.
  const reopen = () => (mark(key, "connecting"), open(true), awake());
  mark(key, "connecting");
  open();
  // While nothing comes, the page loads now and then. A browser gives up a source that was refused: it is opened again.
  const timer = setInterval(() => {
    if (sources.get(key).state === "live") return;
    lost();
    if (source.readyState === EventSource.CLOSED) open();
  }, WITHOUT);
  return () => (clearInterval(timer), clearTimeout(silence), source.close(), mark(key, null));
}

/**
 * What `load(signal)` answers, kept while it is loaded again: when `deps` change, after each change that this page has
 * made, when something happens that meets `live`, and every `every` seconds. { value, error, loading, reload, soon };
 * `soon` loads too, once a second at most.
 */
export function useData(load, deps, { live = null, every = 0 } = {}) {
  const [state, set] = useState({ value: undefined, error: null, loading: true });
  const { paused } = useFeed();
  const visible = useVisible();
  const turn = useRef(null);
  const again = useRef(false);
  const reload = useCallback(async () => {
    turn.current?.abort();
    again.current = false;
    const mine = (turn.current = new AbortController());
    try {
      const value = await load(mine.signal);
      if (turn.current === mine) set({ value, error: null, loading: false });
    } catch (error) {
      if (turn.current === mine) set((before) => ({ value: before.value, error, loading: false }));
    } finally {
      if (turn.current === mine) {
        turn.current = null;
        if (again.current) reload();
      }
    }
  }, deps);
  // An answer that takes longer than the next reason to ask would never come if that put an end to it.
  const after = useCallback(() => void (turn.current ? (again.current = true) : reload()), [reload]);
  const idly = useCallback(() => void (turn.current || reload()), [reload]);
  useEffect(() => {
    set((before) => ({ ...before, loading: true }));
    reload();
    return () => (turn.current?.abort(), (turn.current = null));
  }, [reload]);
  const soon = useSoon(after);
  useNotices(live, soon, soon);
  // What this page has changed is shown at once, with or without a feed.
  useEffect(() => onChange(soon), [soon]);
  useEffect(() => {
    if (paused || !visible || !every) return;
    const timer = setInterval(idly, every * 1000);
    return () => clearInterval(timer);
  }, [idly, every, paused, visible]);
  const first = useRef(true);
  useEffect(() => {
    if (!first.current && !paused && visible) reload();
    first.current = false;
  }, [paused, visible]);
  const failed = state.error && !(state.error.status < 500);
  useEffect(() => {
    if (!failed || !visible) return;
    const timer = setTimeout(reload, WITHOUT);
    return () => clearTimeout(timer);
  }, [state, visible]);
  return { ...state, reload, soon };
}

/** Calls of the answer become one call a second at most, and none is forgotten. */
function useSoon(call) {
  const timer = useRef(null);
  const last = useRef(0);
  const latest = useRef(call);
  latest.current = call;
  useEffect(() => () => clearTimeout(timer.current), []);
  return useCallback(() => {
    if (timer.current !== null) return;
    timer.current = setTimeout(() => {
      timer.current = null;
      last.current = Date.now();
      latest.current();
    }, Math.max(100, last.current + AT_MOST - Date.now()));
  }, []);
}
