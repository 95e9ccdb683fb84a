// The actions on a flow's page: buttons and their dialogs.
import { html, useState } from "../html.js";
import { useSession } from "../session.js";
import { Icon } from "./icons.js";
import { Cancel } from "./job_actions.js";

/** Those that the flow's state and the viewer's role allow; that of an ended flow is shown with the reasons. */
export function FlowActions({ flow, changed }) {
  const { may } = useSession();
  const [asking, ask] = useState(false);
  const { job, stopping } = flow;
  if (!may("operator", "jobs") || !job.can.includes("cancel")) return null;
  return html`<button onClick=${() => ask(true)}><${Icon} name="cancelled" />${stopping ? "Cancel all" : "Cancel"}</button>
    ${asking && html`<${Cancel} job=${job} noun="flow" words=${stopping ? AGAIN : STOPS} onClose=${() => ask(false)}
      onDone=${changed} />`}`;
}

const STOPS = "Steps that wait are not run, running ones are interrupted. Steps that run at the end, in any case, "
  + "still do. It can be retried later.";
const AGAIN = "It is stopping already: this cancels the steps that run at the end, too.";
