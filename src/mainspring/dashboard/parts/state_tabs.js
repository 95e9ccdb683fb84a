// Tabs above a list of jobs: one for each state, with the number of jobs.
import { count, shortCount } from "../format.js";
import { html, useEffect, useRef } from "../html.js";
import { Icon } from "./icons.js";
import { MEANING, STATES } from "./state.js";

/**
 * `counts` are the numbers of jobs by state, or null while they load. A missing state was not counted; a number equal
 * to `counts.up_to` means that many or more. `to(states)` returns a URL.
 */
export function StateTabs({ chosen = [], counts, to }) {
  const known = counts && STATES.filter((state) => counts[state] !== undefined);
  const all = known?.length === STATES.length ? known.reduce((sum, state) => sum + counts[state], 0) : null;
  const capped = (state) => counts.up_to !== undefined && counts[state] === counts.up_to;
  const ref = useRef();
  useEffect(() => void (chosen.length && show(ref.current)), [chosen.join(), counts === null || counts === undefined]);
  return html`<nav class="state-tabs" ref=${ref} aria-label="States">
    <a href=${to([])} aria-current=${chosen.length ? undefined : "true"}>
      All${all !== null && html` <${Figure} n=${all} more=${known.some(capped)} />`}</a>
    ${STATES.map((state) => html`<a key=${state} href=${to([state])} title=${MEANING[state]}
      aria-current=${chosen.includes(state) ? "true" : undefined}>
      <i class=${`state-${state}`}><${Icon} name=${state} size=${14} /></i>${state}${" "}
      ${counts && counts[state] !== undefined && html`<${Figure} n=${counts[state]} more=${capped(state)} />`}</a>`)}
  </nav>`;
}

function Figure({ n, more }) {
  const title = more ? `${count(n)} or more` : count(n);
  return html`<span class=${n ? "figure" : "figure none"}
    title=${title}>${n < 10000 ? count(n) : shortCount(n)}${more && "+"}</span>`;
}

/** Scrolls the current tab into view on a narrow screen, without scrolling the page. */
function show(tabs) {
  const tab = tabs.querySelector("[aria-current]");
  if (!tab) return; // the URL may have an unknown state
  tabs.scrollLeft = tab.offsetLeft - tabs.offsetLeft - (tabs.clientWidth - tab.offsetWidth) / 2;
}
