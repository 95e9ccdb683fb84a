// The actions on a flow's page: buttons and their dialogs.
import { post, segment } from "../api.js";
import { html, useState } from "../html.js";
import { useSession } from "../session.js";
import { ActionButton } from "./action_button.js";
import { Icon } from "./icons.js";
import { Cancel } from "./job_actions.js";

const FINAL = new Set(["completed", "dead", "cancelled", "expired"]);

/** Those that the flow's state and the viewer's role allow; the retry of an ended flow is shown with the reasons. */
export function FlowActions({ flow, changed }) {
  const { may } = useSession();
  const [asking, ask] = useState(false);
  const { job, steps, stopping } = flow;
  if (!may("operator", "flows")) return null;
  const at = `flows/${segment(job.id)}`;
  const failed = !FINAL.has(job.shown) && !stopping && steps.some((step) => step.status === "dead");
  const retry = async () => {
    await post(`${at}/retry`);
    await changed();
    return "Dead steps are put back to work, and what depends on them.";
  };
  return html`
    ${failed && html`<${ActionButton} icon="retrying" run=${retry}>Retry dead steps<//>`}
    ${job.can.includes("cancel") && html`<button onClick=${() => ask(true)}>
      <${Icon} name="cancelled" />${stopping ? "Cancel all" : "Cancel"}</button>`}
    ${asking && html`<${Cancel} job=${job} noun="flow" path=${`${at}/cancel`} words=${stopping ? AGAIN : STOPS}
      onClose=${() => ask(false)} onDone=${changed} />`}`;
}

const STOPS = "Steps that wait are not run, running ones are interrupted. Steps that run at the end, in any case, "
  + "still do. It can be retried later.";
const AGAIN = "It is stopping already: this cancels the steps that run at the end, too.";
