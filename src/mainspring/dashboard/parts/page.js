// Common parts of pages: heading, loading state, error, empty state, and the pager of a list.
import { html, useEffect, useRef } from "../html.js";
import { wasNavigated, go, link, route } from "../route.js";
import { Icon } from "./icons.js";

/** The heading of a page. `actions` are buttons on the right; `title` is also the title of the document. */
export function Head({ title, actions, children }) {
  const ref = useRef();
  // Screen readers and the keyboard start at the new heading, unless the search field has the focus.
  useEffect(() => {
    if (wasNavigated() && !document.querySelector("#search:focus")) ref.current.focus({ preventScroll: true });
  }, []);
  useEffect(() => void (document.title = `${typeof title === "string" ? title : "Mainspring"} · Mainspring`), [title]);
  return html`<div class="head"><h1 ref=${ref} tabindex="-1">${title}</h1>${children}
    <div class="actions">${actions}</div></div>`;
}

/** The value of useData(): "Loading…" until there is one; an error is shown above the previous value. */
export function Loaded({ data, children }) {
  return html`
    ${data.error && html`<${ErrorNotice} error=${data.error} retry=${data.reload} />`}
    ${data.value === undefined
      ? !data.error && html`<p class="loading" aria-busy="true">Loading…</p>`
      : children(data.value)}`;
}

export function ErrorNotice({ error, retry }) {
  return html`<div class="trouble" role="alert"><${Icon} name="warning" /><span>${error.message}</span>
    ${retry && html`<button onClick=${retry}>Try again</button>`}</div>`;
}

/** The empty state of a list: the reason, and what to do. `code` is an example. */
export function Empty({ title, code, children }) {
  return html`<div class="empty"><h2>${title}</h2><div>${children}</div>
    ${code && html`<pre class="code" tabindex="0">${code}</pre>`}</div>`;
}

/** The pager of a list. `next` is the cursor of the API; previous pages are in the browser's history. */
export function Pager({ next, words }) {
  const { page, query } = route();
  const turn = (after) => {
    const now = new URLSearchParams(query);
    if (after) now.set("after", after);
    else now.delete("after");
    go(link(page, Object.fromEntries([...new Set(now.keys())].map((name) => [name, now.getAll(name)]))));
  };
  return html`<nav class="pager" aria-label="Pages of this list"><span class="muted">${words}</span>
    ${query.get("after") && html`<button onClick=${() => turn(null)}><${Icon} name="back" /> First page</button>`}
    ${next && html`<button onClick=${() => turn(next)}>Next page <${Icon} name="next" /></button>`}
  </nav>`;
}

/** Named values: [["Queue", value], …]. Undefined values are omitted. */
export function Facts({ of: facts }) {
  return html`<dl class="facts">${facts.filter(([, value]) => value !== undefined)
    .map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}
