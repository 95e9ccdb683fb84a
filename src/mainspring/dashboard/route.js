// Addresses of pages: they are real paths below the base, and filters are in their query.
import { useEffect, useState } from "./html.js";

const CHANGED = "mainspring:address";
const base = () => new URL(document.baseURI);

/** { page, rest, query }: of jobs/17?queue=a they are "jobs", "17" and URLSearchParams. */
export function route() {
  const path = location.pathname.slice(base().pathname.length);
  const [page = "", ...rest] = path.split("/").filter(Boolean).map(decodeURIComponent);
  return { page, rest: rest.join("/"), query: new URLSearchParams(location.search) };
}

export function useRoute() {
  const [now, set] = useState(route);
  useEffect(() => {
    const changed = () => set(route());
    addEventListener("popstate", changed);
    addEventListener(CHANGED, changed);
    return () => (removeEventListener("popstate", changed), removeEventListener(CHANGED, changed));
  }, []);
  return now;
}

/** A relative address, for <a href>: link("jobs", {state: ["dead"]}). */
export function link(path, query = {}) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value].flat()) if (one !== undefined && one !== null && one !== "") found.append(name, one);
  }
  const text = found.toString();
  return (path || "./") + (text && `?${text}`);
}

export const jobLink = (id) => `jobs/${encodeURIComponent(id)}`;
/** Jobs by the filters of their list. */
export const jobsOf = (filter) => link("jobs", filter);
export const scheduleLink = (name) => `schedules/${encodeURIComponent(name)}`;

let arriving = false;

/** Whether this page was just reached from another one: true once. */
export function arrived() {
  const now = arriving;
  arriving = false;
  return now;
}

/** Goes to a relative address without reloading the page. */
export function go(href, { replace = false } = {}) {
  arriving = new URL(href, base()).pathname !== location.pathname;
  history[replace ? "replaceState" : "pushState"](null, "", new URL(href, base()));
  dispatchEvent(new Event(CHANGED));
  if (!replace) scrollTo(0, 0);
}

/** Links within the dashboard are followed here; those with a modifier key, or to elsewhere, by the browser. */
export function followLinks() {
  addEventListener("click", (event) => {
    const anchor = event.target.closest?.("a[href]");
    if (!anchor || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const to = new URL(anchor.href);
    const inside = to.origin === location.origin && to.pathname.startsWith(base().pathname);
    if (!inside || anchor.target || anchor.hasAttribute("download") || anchor.dataset.plain !== undefined) return;
    event.preventDefault();
    go(to.href);
  });
}
