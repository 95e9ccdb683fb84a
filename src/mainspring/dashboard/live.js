// The live event feed, and data that reloads when events arrive. Stops while the page is paused or hidden.
import { apiUrl, onChange } from "./api.js";
import { useCallback, useEffect, useRef, useState } from "./html.js";
import { parse } from "./lossless_json.js";
import { useSession } from "./session.js";

const TYPES = [
  "job.enqueued", "job.started", "job.completed", "job.retrying", "job.dead", "job.cancelled", "job.snoozed",
  "job.released", "job.suspended", "job.expired", "job.lost", "job.changed", "job.progress", "job.log", "job.output",
  "job.pruned",
  "schedule.fired", "schedule.passed", "schedule.paused", "schedule.changed", "queue.paused", "queue.resumed",
  "worker.started", "worker.stopping", "worker.stopped", "worker.changed", "leader.changed", "dropped", "reset",
];
// Between two reloads because of events, and between reloads without a feed.
const MIN_RELOAD_MS = 1000;
const POLL_MS = 5000;
// A source that is silent for this number of heartbeats is reopened: the browser may not notice a lost connection.
const MAX_MISSED_HEARTBEATS = 2;

/** The state of the feed, shown in the header: "live", "connecting", "paused", or "stalled" with a reason. */
export const feed = { paused: false, state: "live", reason: "", listeners: new Set() };

function updateFeed(change) {
  Object.assign(feed, change);
  feed.listeners.forEach((listener) => listener());
}

export const setPaused = (paused) => updateFeed({ paused });

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
 * Calls `onEvent` with each event that matches `filter` ({type, job, queue, task, schedule, state}, as in the API; null
 * for none), and `onGap` when events were lost and the data has to be reloaded.
 */
export function useEvents(filter, onEvent, onGap) {
  const { paused } = useFeed();
  const visible = useVisible();
  const calls = useRef({});
  calls.current = { onEvent, onGap };
  const url = filter && !paused && visible ? apiUrl("events", filter).href : null;
  const may = useSession()?.sees("events");
  useEffect(() => {
    if (!url) return;
    if (may) return listen(url, (event) => calls.current.onEvent(event), () => calls.current.onGap());
    const timer = setInterval(() => calls.current.onGap(), POLL_MS);
    return () => clearInterval(timer);
  }, [url, may]);
}

// The state of each open source, with a reason if it is stalled. The header shows the worst of them.
const sources = new Map();

function setSource(key, state, reason = "") {
  if (state) sources.set(key, { state, reason });
  else sources.delete(key);
  const all = [...sources.values()];
  const worst = ["stalled", "connecting"].find((one) => all.some((source) => source.state === one)) ?? "live";
  updateFeed({ state: worst, reason: all.find((source) => source.state === worst)?.reason ?? "" });
}

function listen(url, onEvent, onGap) {
  const key = {};
  let source = null;
  let silenceTimer = null;
  let seconds = 0; // between two heartbeats; 0 for an older server, which sends none
  const resetTimer = () => {
    clearTimeout(silenceTimer);
    if (seconds) silenceTimer = setTimeout(reopen, 1000 * MAX_MISSED_HEARTBEATS * seconds);
  };
  const open = (missed = false) => {
    source?.close();
    source = new EventSource(url);
    const on = (type, act) => source.addEventListener(type, (event) => (resetTimer(), act(event)));
    source.onopen = () => (resetTimer(), setSource(key, "live"), missed && onGap());
    source.onerror = () => (clearTimeout(silenceTimer), setSource(key, "connecting"));
    on("stalled", (event) => setSource(key, "stalled", parse(event.data).reason));
    on("resumed", () => setSource(key, "live"));
    on("heartbeat", (event) => ((seconds = Number(parse(event.data).seconds)), resetTimer()));
    for (const type of TYPES) {
      const lossy = type === "reset" || type === "dropped";
      on(type, (event) => (lossy ? onGap() : onEvent(parse(event.data))));
    }
  };
  // The new source does not resume from the last event, so the data is reloaded. It has to send heartbeats, too.
  const reopen = () => (setSource(key, "connecting"), open(true), resetTimer());
  setSource(key, "connecting");
  open();
  // Without a live source the page polls. A browser closes a source that was refused: it is opened again.
  const timer = setInterval(() => {
    if (sources.get(key).state === "live") return;
    onGap();
    if (source.readyState === EventSource.CLOSED) open();
  }, POLL_MS);
  return () => (clearInterval(timer), clearTimeout(silenceTimer), source.close(), setSource(key, null));
}

/**
 * The result of `load(signal)`. It is loaded again when `deps` change, after each change that this page makes, when an
 * event matches the filter `live`, and every `every` seconds; the old value stays meanwhile. Returns { value, error,
 * loading, reload, soon }; `soon` reloads at most once a second.
 */
export function useData(load, deps, { live = null, every = 0 } = {}) {
  const [state, set] = useState({ value: undefined, error: null, loading: true });
  const { paused } = useFeed();
  const visible = useVisible();
  const request = useRef(null);
  const pending = useRef(false);
  const reload = useCallback(async () => {
    request.current?.abort();
    pending.current = false;
    const current = (request.current = new AbortController());
    try {
      const value = await load(current.signal);
      if (request.current === current) set({ value, error: null, loading: false });
    } catch (error) {
      if (request.current === current) set((before) => ({ value: before.value, error, loading: false }));
    } finally {
      if (request.current === current) {
        request.current = null;
        if (pending.current) reload();
      }
    }
  }, deps);
  // A request under way is not aborted by the next event: else frequent events would prevent every response.
  const reloadAfter = useCallback(() => void (request.current ? (pending.current = true) : reload()), [reload]);
  const reloadIfIdle = useCallback(() => void (request.current || reload()), [reload]);
  useEffect(() => {
    set((before) => ({ ...before, loading: true }));
    reload();
    return () => (request.current?.abort(), (request.current = null));
  }, [reload]);
  const soon = useThrottled(reloadAfter);
  useEvents(live, soon, soon);
  // Changes made by this page show at once, with or without a feed.
  useEffect(() => onChange(soon), [soon]);
  useEffect(() => {
    if (paused || !visible || !every) return;
    const timer = setInterval(reloadIfIdle, every * 1000);
    return () => clearInterval(timer);
  }, [reloadIfIdle, every, paused, visible]);
  const first = useRef(true);
  useEffect(() => {
    if (!first.current && !paused && visible) reload();
    first.current = false;
  }, [paused, visible]);
  const failed = state.error && !(state.error.status < 500);
  useEffect(() => {
    if (!failed || !visible) return;
    const timer = setTimeout(reload, POLL_MS);
    return () => clearTimeout(timer);
  }, [state, visible]);
  return { ...state, reload, soon };
}

/** A function that calls `call` at most once a second. The last call is never dropped. */
function useThrottled(call) {
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
    }, Math.max(100, last.current + MIN_RELOAD_MS - Date.now()));
  }, []);
}
