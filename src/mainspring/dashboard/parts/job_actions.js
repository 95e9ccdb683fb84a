// What may be done with one job: the buttons of its page, and the questions they ask.
import { post, remove, segment } from "../api.js";
import { now } from "../clock.js";
import { html, useId, useState } from "../html.js";
import { go, jobLink } from "../route.js";
import { useSession } from "../session.js";
import { Act } from "./act.js";
import { confirm } from "./dialog.js";
import { FormDialog, told } from "./form.js";
import { Icon } from "./icons.js";
import { JobEdit } from "./job_edit.js";
import { instant, Moment, typed } from "./moment.js";

const at = (job, action) => `jobs/${segment(job.id)}/${action}`;

/**
 * What makes it run stands beside the reason why it does not; here is the rest: what its state and the viewer's role
 * allow. `changed` is called after each action.
 */
export function JobActions({ job, changed }) {
  const { may } = useSession();
  const [open, set] = useState(null);
  if (!may("operator", "jobs")) return null;
  const can = new Set(job.can);
  const act = (action, words) => async () => (await post(at(job, action)), await changed(), words);
  const close = () => set(null);
  const erase = () => confirm({
    title: "Delete this job?", action: "Delete", danger: true,
    words: html`<p>${job.task} <code>${job.id}</code> is deleted with its runs, its log and its result.
      This cannot be undone.</p>`,
    run: async () => (await remove(`jobs/${segment(job.id)}`), go("jobs"), null),
  });
  return html`
    ${canRunAgain(job) && html`<button onClick=${() => set("again")}><${Icon} name="play" />Run again</button>`}
    ${can.has("pause")
      && html`<${Act} icon="pause" run=${act("pause", "Paused.")}>Pause<//>`}
    ${can.has("update") && html`<button onClick=${() => set("when")}><${Icon} name="scheduled" />Reschedule</button>
      <button onClick=${() => set("edit")}><${Icon} name="edit" />Edit</button>`}
    ${can.has("cancel") && html`<button onClick=${() => set("cancel")}><${Icon} name="cancelled" />Cancel</button>`}
    ${can.has("delete") && html`<button class="quiet" aria-label="Delete" title="Delete" onClick=${erase}>
      <${Icon} name="trash" /></button>`}
    ${open === "cancel" && html`<${Cancel} job=${job} onClose=${close} onDone=${changed} />`}
    ${open === "when" && html`<${When} job=${job} onClose=${close} onDone=${changed} />`}
    ${open === "again" && html`<${RunAgain} job=${job} onClose=${close} />`}
    ${open === "edit" && html`<${JobEdit} job=${job} onClose=${close} onDone=${changed} />`}`;
}

const FINISHED = ["completed", "dead", "cancelled", "expired"];
/** Jobs of the engine itself are not made by hand. */
const canRunAgain = (job) => FINISHED.includes(job.shown) && !job.task.startsWith("mainspring.");

function RunAgain({ job, onClose }) {
  const run = async () => {
    const made = await post(at(job, "run-again"));
    go(jobLink(made.id));
    return "Enqueued as a new job.";
  };
  const stays = job.shown === "dead" ? " To put this job itself back into its queue, redrive it." : "";
  return html`<${FormDialog} title="Run again as a new job?" action="Run again" run=${told(run)} onClose=${onClose}>
    <p>This enqueues a new job of ${job.task} in queue ${job.queue}, with the same arguments, tags and options. This job
      stays as it is.${stays}</p>
  <//>`;
}

function Cancel({ job, onClose, onDone }) {
  const [reason, set] = useState("");
  const id = useId();
  const running = job.state === "running";
  const words = running
    ? "Its worker interrupts it at its next heartbeat."
    : "It does not run. It can be retried later.";
  const run = async () => {
    await post(at(job, "cancel"), reason ? { reason } : undefined);
    return running ? "Cancellation requested." : "Cancelled.";
  };
  return html`<${FormDialog} title="Cancel this job?" action="Cancel job" dismiss="Back" danger onClose=${onClose}
    run=${told(run, onDone)}>
    <p>${job.task} <code>${job.id}</code>. ${words}</p>
    <div class="field"><label for=${id}>Reason</label>
      <input id=${id} value=${reason} maxlength="1024" placeholder="cancelled by an operator" autocomplete="off"
        autofocus onInput=${(event) => set(event.target.value)} />
      <p class="hint">Kept with the job.</p></div>
  <//>`;
}

const SOON = [["Now", 0], ["In 5 min", 300], ["In 1 h", 3600], ["In 1 d", 86400]];

function When({ job, onClose, onDone }) {
  const [when, set] = useState(typed(job.run_at));
  const run = async () => (await post(at(job, "reschedule"), { at: instant(when) }), "Rescheduled.");
  return html`<${FormDialog} title="Reschedule this job" action="Reschedule" ready=${instant(when) !== null}
    onClose=${onClose} run=${told(run, onDone)}>
    <${Moment} label="Due at" text=${when} onText=${set} required />
    <p class="row">${SOON.map(([words, seconds]) => html`
      <button key=${words} type="button" onClick=${() => set(typed(now() + seconds * 1000))}>${words}</button>`)}</p>
  <//>`;
}
