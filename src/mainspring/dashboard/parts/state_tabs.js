// The states as tabs over a list of jobs, with how many are in each.
import { count, short } from "../format.js";
import { html, useEffect, useRef } from "../html.js";
import { Icon } from "./icons.js";
import { MEANING, STATES } from "./state.js";

/** `counts` of all jobs, or null where they would not be those of the list; `to(states)` is an address. */
export function StateTabs({ chosen = [], counts, to }) {
  const all = counts && STATES.reduce((sum, state) => sum + counts[state], 0);
  const ref = useRef();
  useEffect(() => void (chosen.length && show(ref.current)), [chosen.join(), counts === null || counts === undefined]);
  return html`<nav class="state-tabs" ref=${ref} aria-label="States">
    <a href=${to([])} aria-current=${chosen.length ? undefined : "true"}>
      All${counts && html` <${Figure} n=${all} />`}</a>
    ${STATES.map((state) => html`<a key=${state} href=${to([state])} title=${MEANING[state]}
      aria-current=${chosen.includes(state) ? "true" : undefined}>
      <i class=${`state-${state}`}><${Icon} name=${state} size=${14} /></i>${state}${" "}
      ${counts && html`<${Figure} n=${counts[state]} />`}</a>`)}
  </nav>`;
}

function Figure({ n }) {
  return html`<span class=${n ? "figure" : "figure none"} title=${count(n)}>${n < 10000 ? count(n) : short(n)}</span>`;
}

/** On a narrow screen the tabs scroll, without the page. */
function show(tabs) {
  const tab = tabs.querySelector("[aria-current]");
  if (!tab) return; // an address may name a state that there is not
  tabs.scrollLeft = tab.offsetLeft - tabs.offsetLeft - (tabs.clientWidth - tab.offsetWidth) / 2;
}
