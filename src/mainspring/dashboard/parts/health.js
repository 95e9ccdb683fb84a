// The health of the system: healthy, or the problems that need attention, with links.
import { relative } from "../format.js";
import { findProblems, healthyText } from "../health.js";
import { html, useEffect } from "../html.js";
import { useNow } from "../clock.js";
import { useSession } from "../session.js";
import { Icon } from "./icons.js";
import { PauseButton } from "./queue.js";

const SCOPES = ["stats", "workers", "scheduler", "jobs", "queues"];

/**
 * `facts` as for findProblems() in ../health.js; `whole`: all of them are loaded; `since`: when they were last loaded,
 * if loading fails now.
 */
export function Health({ facts, whole, since, reload }) {
  const now = useNow();
  const session = useSession();
  const found = findProblems({ ...facts, now });
  const level = since ? "unknown" : found[0]?.level ?? (whole ? "good" : "unknown");
  const well = SCOPES.every((scope) => session.sees(scope)) ? "Healthy" : "No problems in what you can see";
  const needs = found.length && `${found.length} ${found.length === 1 ? "problem needs" : "problems need"} attention`;
  const words = since
    ? `Unknown: the last answer came ${relative(since, now)}`
    : needs || (whole ? well : "Checking…");
  // The number of problems is visible in a background tab, too.
  const many = found.length ? `(${found.length}) ` : "";
  useEffect(() => void (document.title = `${many}Overview · Mainspring`), [many]);
  return html`<section class=${`health health-${level}`} aria-labelledby="health">
    <h2 id="health"><${Icon} name=${level === "good" ? "completed" : "warning"} size=${18} />
      <span role="status">${words}</span>
      ${level === "good" && html`<span class="health-more">${healthyText({ ...facts, now })}</span>`}</h2>
    ${found.length > 0 && html`<ul>${found.map((one) => html`
      <${ProblemRow} key=${one.key} trouble=${one} reload=${reload} />`)}</ul>`}
  </section>`;
}

function ProblemRow({ trouble: { level, text, more, href, label, queue }, reload }) {
  return html`<li class=${`health-${level}`}>
    <${Icon} name=${level === "bad" ? "dead" : "warning"} />
    <span class="health-text">${text}${more && html` <span class="health-more">${more}</span>`}</span>
    <span class="row">${queue && html`<${PauseButton} queue=${queue} after=${reload} />`}
      <a href=${href} aria-label=${`${label}: ${text}`}>${label}</a></span>
  </li>`;
}
