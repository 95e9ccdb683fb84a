// What pages have in common: a head, a word while they load, words when there is nothing, and pages of a list.
import { html, useEffect, useRef } from "../html.js";
import { arrived, go, link, route } from "../route.js";
import { Icon } from "./icons.js";

/** `actions` are buttons on the right; `title` is also the window's. */
export function Head({ title, actions, children }) {
  const ref = useRef();
  // Who hears the page, or uses its keys, begins where the new one does; unless they came for its search.
  useEffect(() => {
    if (arrived() && !document.querySelector("#search:focus")) ref.current.focus({ preventScroll: true });
  }, []);
  useEffect(() => void (document.title = `${typeof title === "string" ? title : "Mainspring"} · Mainspring`), [title]);
  return html`<div class="head"><h1 ref=${ref} tabindex="-1">${title}</h1>${children}
    <div class="actions">${actions}</div></div>`;
}

/** What useData() answers with: words while there is nothing, trouble above what was there before. */
export function Loaded({ data, children }) {
  return html`
    ${data.error && html`<${Trouble} error=${data.error} retry=${data.reload} />`}
    ${data.value === undefined
      ? !data.error && html`<p class="loading" aria-busy="true">Loading…</p>`
      : children(data.value)}`;
}

export function Trouble({ error, retry }) {
  return html`<div class="trouble" role="alert"><${Icon} name="warning" /><span>${error.message}</span>
    ${retry && html`<button onClick=${retry}>Try again</button>`}</div>`;
}

/** Nothing here: why, and what to do. `code` is what one could run. */
export function Empty({ title, code, children }) {
  return html`<div class="empty"><h2>${title}</h2><div>${children}</div>
    ${code && html`<pre class="code" tabindex="0">${code}</pre>`}</div>`;
}

/** By cursor: `next` is the API's; older pages are further on in the browser's history. */
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

/** Some things with names: [["Queue", value], …]; what is undefined is left out. */
export function Facts({ of: facts }) {
  return html`<dl class="facts">${facts.filter(([, value]) => value !== undefined)
    .map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}
