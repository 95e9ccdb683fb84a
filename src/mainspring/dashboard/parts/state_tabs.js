// The states as tabs over a list of jobs, with how many are in each.
import { count, short } from "../format.js";
import { html, useEffect, useRef } from "../html.js";
import { Icon } from "./icons.js";
import { MEANING, STATES } from "./state.js";

/**
 * `counts` of the list's jobs, whatever their state, or nothing while they are not known; a state that is missing there
 * was not counted, and a figure as large as its `up_to` may be larger. `to(states)` is an address.
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
    title=${title}>${n < 10000 ? count(n) : short(n)}${more && "+"}</span>`;
}

/** On a narrow screen the tabs scroll, without the page. */
function show(tabs) {
  const tab = tabs.querySelector("[aria-current]");
  if (!tab) return; // an address may name a state that there is not
  tabs.scrollLeft = tab.offsetLeft - tabs.offsetLeft - (tabs.clientWidth - tab.offsetWidth) / 2;
}
