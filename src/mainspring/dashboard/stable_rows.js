// Rows of a list that stay in place while the viewer is about to use them: new rows wait behind a button.
import { useEffect, useRef, useState } from "./html.js";

const HOVER_MS = 1500; // after the last movement of the pointer: a click may follow

/** { hovering, ref }: whether the pointer moves over the element of `ref`, or it has the keyboard focus. */
export function useHover() {
  const [hovering, set] = useState(false);
  const [element, ref] = useState(null);
  useEffect(() => {
    if (!element) return;
    let timer = null;
    const startTimer = () => {
      clearTimeout(timer);
      timer = setTimeout(() => (element.querySelector("td :focus-visible") ? startTimer() : set(false)), HOVER_MS);
    };
    const onMove = (event) => event.pointerType !== "touch" && (set(true), startTimer());
    const onFocus = (event) => event.target.matches("td :focus-visible") && (set(true), startTimer());
    element.addEventListener("pointermove", onMove);
    element.addEventListener("focusin", onFocus);
    return () => {
      clearTimeout(timer);
      element.removeEventListener("pointermove", onMove);
      element.removeEventListener("focusin", onFocus);
    };
  }, [element]);
  return { hovering, ref };
}

/**
 * The rows to show for `items` (each with an id) of the list named `key`; `more` if the list has further pages. While
 * `stable` is true, the same rows stay in the same places, with their current values. Returns { items, gone, added,
 * showNew }: the ids that are no longer in the list, the number of new rows, and a function that shows them.
 */
export function useStableRows(key, items, more, stable) {
  const rows = useRef({ key: null, items: [] });
  const [, redraw] = useState(0);
  const now = new Map(items.map((item) => [item.id, item]));
  if (!stable || rows.current.key !== key || !rows.current.items.length) rows.current = { key, items };
  else rows.current.items = rows.current.items.map((item) => now.get(item.id) ?? item);
  const shown = new Set(rows.current.items.map((item) => item.id));
  // A row after the last known one may not be gone: new rows may have moved it to the next page.
  const last = more ? rows.current.items.findLastIndex((item) => now.has(item.id)) : Infinity;
  const gone = new Set([...shown].filter((id, n) => !now.has(id) && n < last));
  const added = items.filter((item) => !shown.has(item.id)).length;
  const showNew = () => ((rows.current = { key, items }), redraw((n) => n + 1));
  return { items: rows.current.items, gone, added, showNew };
}
