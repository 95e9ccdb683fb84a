// Long lists: the first rows and a button that shows more, or pages.
import { html, useEffect, useState } from "../html.js";
import { Icon } from "./icons.js";

const NARROW = "(max-width: 640px)";

/** [rows, showMore]: the number of rows to show, and a function that increases it. `name` identifies the list; `narrow`
 * and `wide` are the numbers for narrow and wide screens. */
export function useRowLimit(name, narrow = 15, wide = Infinity) {
  const part = matchMedia(NARROW).matches ? narrow : wide;
  const [parts, set] = useState(1);
  useEffect(() => set(1), [name]);
  return [part * parts, () => set((n) => n + 1)];
}

export const LoadMore = ({ onMore }) => html`<p class="load-more"><button onClick=${onMore}>Load more</button></p>`;

/** `pages` are the cursors of the pages before, and of this one; `next` is that of the next page, if there is one. */
export const Pager = ({ name, pages, setPages, next }) => html`<nav class="pager" aria-label=${`Pages of the ${name}`}>
  ${pages.length > 0 && html`<button onClick=${() => setPages(pages.slice(0, -1))}>
    <${Icon} name="back" /> Previous</button>`}
  ${(next ?? null) !== null && html`<button onClick=${() => setPages([...pages, next])}>Next <${Icon}
    name="next" /></button>`}</nav>`;
