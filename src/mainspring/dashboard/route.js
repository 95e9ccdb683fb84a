// The URLs of pages: paths below the base URL, with filters in the query.
import { useEffect, useState } from "./html.js";

const CHANGED = "mainspring:address";
const base = () => new URL(document.baseURI);

/** The parts of the URL as { page, rest, query, href }: for jobs/17?queue=a "jobs", "17" and URLSearchParams. */
export function route() {
  const path = location.pathname.slice(base().pathname.length);
  const [page = "", ...rest] = path.split("/").filter(Boolean).map(decodeURIComponent);
  return { page, rest: rest.join("/"), query: new URLSearchParams(location.search), href: location.href };
}

export function useRoute() {
  const [now, set] = useState(route);
  useEffect(() => {
    const changed = () => set(route());
    addEventListener("popstate", changed);
    addEventListener(CHANGED, changed);
    if (now.href !== location.href) changed(); // between the first rendering and this effect
    return () => (removeEventListener("popstate", changed), removeEventListener(CHANGED, changed));
  }, []);
  return now;
}

/** A relative URL for <a href>: link("jobs", {state: ["dead"]}). */
export function link(path, query = {}) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value].flat()) if (one !== undefined && one !== null && one !== "") found.append(name, one);
  }
  const text = found.toString();
  return (path || "./") + (text && `?${text}`);
}

export const jobLink = (id) => `jobs/${encodeURIComponent(id)}`;
export const flowLink = (id) => `flows/${encodeURIComponent(id)}`;
/** The list of jobs with these filters. */
export const jobsLink = (filter) => link("jobs", filter);
export const scheduleLink = (name) => `schedules/${encodeURIComponent(name)}`;

let navigated = false;

/** Whether the viewer came to this page from another one. True once. */
export function wasNavigated() {
  const now = navigated;
  navigated = false;
  return now;
}

/** Navigates to a relative URL without reloading the document. */
export function go(href, { replace = false } = {}) {
  navigated = new URL(href, base()).pathname !== location.pathname;
  history[replace ? "replaceState" : "pushState"](null, "", new URL(href, base()));
  dispatchEvent(new Event(CHANGED));
  if (!replace) scrollTo(0, 0);
}

/** Handles clicks on links within the dashboard. Clicks with a modifier key, and other links, are the browser's. */
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
