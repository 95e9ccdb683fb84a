// Keyboard shortcuts: one key, or two in sequence ("g j"). Ignored while the viewer types in a field.
import { useEffect } from "./html.js";

const SEQUENCE_MS = 1200; // between two keys of one shortcut
const typing = (element) => element?.matches?.("input, textarea, select, [contenteditable]");

/** `keys` is {"/": {words, run}, "g j": …}. */
export function useKeys(keys) {
  useEffect(() => {
    let before = "", at = 0;
    const pressed = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (typing(event.target) || document.querySelector("dialog[open]")) return;
      const both = Date.now() - at < SEQUENCE_MS ? `${before} ${event.key}` : "";
      const found = keys[both] ?? keys[event.key];
      [before, at] = [event.key, Date.now()];
      if (!found) return;
      event.preventDefault();
      found.run();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [keys]);
}
