// Light or dark: as the system prefers, unless the viewer has chosen.
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

/** Calls `told` when the colours on the screen have changed. */
export function onTheme(told) {
  dark.addEventListener("change", told);
  addEventListener(CHANGED, told);
  return () => (dark.removeEventListener("change", told), removeEventListener(CHANGED, told));
}
