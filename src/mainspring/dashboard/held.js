// Rows that do not move while they are about to be used: new ones wait behind a button.
import { useEffect, useRef, useState } from "./html.js";

const AIM = 1500; // milliseconds after the pointer has moved in which a click may follow

/** { aiming, ref }: whether the pointer moves over the element of `ref`, or the keyboard is in it. */
export function useAim() {
  const [aiming, set] = useState(false);
  const [element, ref] = useState(null);
  useEffect(() => {
    if (!element) return;
    let timer = null;
    const rest = () => {
      clearTimeout(timer);
      timer = setTimeout(() => (element.querySelector("td :focus-visible") ? rest() : set(false)), AIM);
    };
    const aim = (event) => event.pointerType !== "touch" && (set(true), rest());
    const focused = (event) => event.target.matches("td :focus-visible") && (set(true), rest());
    element.addEventListener("pointermove", aim);
    element.addEventListener("focusin", focused);
    return () => {
      clearTimeout(timer);
      element.removeEventListener("pointermove", aim);
      element.removeEventListener("focusin", focused);
    };
  }, [element]);
  return { aiming, ref };
}

/**
 * What to show of `items` (each with an id) of the list named `key`, which continues if there is `more`: while `held`
 * the same rows in the same places, as they are now. { items, gone, fresh, release }: ids that are no longer in the
 * list, how many are new, and a way to see them.
 */
export function useHeld(key, items, more, held) {
  const kept = useRef({ key: null, items: [] });
  const [, redraw] = useState(0);
  const now = new Map(items.map((item) => [item.id, item]));
  if (!held || kept.current.key !== key || !kept.current.items.length) kept.current = { key, items };
  else kept.current.items = kept.current.items.map((item) => now.get(item.id) ?? item);
  const shown = new Set(kept.current.items.map((item) => item.id));
  // Behind the last that is still there, a row may only have been moved to the next page by new ones.
  const last = more ? kept.current.items.findLastIndex((item) => now.has(item.id)) : Infinity;
  const gone = new Set([...shown].filter((id, n) => !now.has(id) && n < last));
  const fresh = items.filter((item) => !shown.has(item.id)).length;
  const release = () => ((kept.current = { key, items }), redraw((n) => n + 1));
  return { items: kept.current.items, gone, fresh, release };
}
