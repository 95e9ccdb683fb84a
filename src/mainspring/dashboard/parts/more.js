// A long list in parts: its first rows, and a button for more of them.
import { html, useEffect, useState } from "../html.js";

const NARROW = "(max-width: 640px)";

/** [rows, more]: how many to show at first and how to show more; `name` is of the list, `wide` for a wide screen. */
export function useShown(name, narrow = 15, wide = Infinity) {
  const part = matchMedia(NARROW).matches ? narrow : wide;
  const [parts, set] = useState(1);
  useEffect(() => set(1), [name]);
  return [part * parts, () => set((n) => n + 1)];
}

export const LoadMore = ({ onMore }) => html`<p class="load-more"><button onClick=${onMore}>Load more</button></p>`;
