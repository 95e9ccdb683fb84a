// The colour theme: light or dark, by default as the system prefers.
const KEY = "mainspring.theme";
const CHANGED = "mainspring:theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

/** "auto", "light" or "dark". */
export const theme = () => localStorage.getItem(KEY) ?? "auto";

export function setTheme(chosen) {
  if (chosen === "auto") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, chosen);
  apply();
}

export function apply() {
  document.documentElement.dataset.theme = theme();
  dispatchEvent(new Event(CHANGED));
}

/** Calls `listener` when the theme has changed. Returns a function that removes the listener. */
export function onTheme(listener) {
  dark.addEventListener("change", listener);
  addEventListener(CHANGED, listener);
  return () => (dark.removeEventListener("change", listener), removeEventListener(CHANGED, listener));
}
