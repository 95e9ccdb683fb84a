// The actions on a job's page: buttons and their dialogs.
import { post, remove, segment } from "../api.js";
import { now } from "../clock.js";
import { html, useId, useState } from "../html.js";
import { go, jobLink } from "../route.js";
import { useSession } from "../session.js";
import { ActionButton } from "./action_button.js";
import { confirm } from "./dialog.js";
import { FormDialog, withToast } from "./form.js";
import { Icon } from "./icons.js";
import { JobEdit } from "./job_edit.js";
import { toInstant, InstantField, toFieldText } from "./instant_field.js";

const at = (job, action) => `jobs/${segment(job.id)}/${action}`;

/**
 * The actions that the job's state and the viewer's role allow, except those that start it: they are shown with the
 * reasons in why.js. `changed` is called after each action.
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
      && html`<${ActionButton} icon="pause" run=${act("pause", "Paused.")}>Pause<//>`}
    ${can.has("update") && html`<button onClick=${() => set("when")}><${Icon} name="scheduled" />Reschedule</button>
      <button onClick=${() => set("edit")}><${Icon} name="edit" />Edit</button>`}
    ${can.has("cancel") && html`<button onClick=${() => set("cancel")}><${Icon} name="cancelled" />Cancel</button>`}
    ${can.has("delete") && html`<button class="quiet" aria-label="Delete" title="Delete" onClick=${erase}>
      <${Icon} name="trash" /></button>`}
    ${open === "cancel" && html`<${Cancel} job=${job} onClose=${close} onDone=${changed} />`}
    ${open === "when" && html`<${Reschedule} job=${job} onClose=${close} onDone=${changed} />`}
    ${open === "again" && html`<${RunAgain} job=${job} onClose=${close} />`}
    ${open === "edit" && html`<${JobEdit} job=${job} onClose=${close} onDone=${changed} />`}`;
}

const FINISHED = ["completed", "dead", "cancelled", "expired"];
/** Jobs of Mainspring's own tasks cannot be enqueued by hand. */
const canRunAgain = (job) => FINISHED.includes(job.shown) && !job.task.startsWith("mainspring.");

function RunAgain({ job, onClose }) {
  const run = async () => {
    const made = await post(at(job, "run-again"));
    go(jobLink(made.id));
    return "Enqueued as a new job.";
  };
  const stays = job.shown === "dead" ? " To put this job itself back into its queue, redrive it." : "";
  return html`<${FormDialog} title="Run again as a new job?" action="Run again" run=${withToast(run)}
      onClose=${onClose}>
    <p>This enqueues a new job of ${job.task} in queue ${job.queue}, with the same arguments, tags and options. This job
      stays as it is.${stays}</p>
  <//>`;
}

/** For a flow with its `noun`, its `path` and the `words` that say what happens. */
export function Cancel({ job, noun = "job", path = at(job, "cancel"), words, onClose, onDone }) {
  const [reason, set] = useState("");
  const id = useId();
  const running = job.state === "running";
  const result = running
    ? "Its worker interrupts it at its next heartbeat."
    : "It does not run. It can be retried later.";
  const run = async () => {
    await post(path, reason ? { reason } : undefined);
    return running || words ? "Cancellation requested." : "Cancelled.";
  };
  return html`<${FormDialog} title=${`Cancel this ${noun}?`} action=${`Cancel ${noun}`} dismiss="Back" danger
    onClose=${onClose} run=${withToast(run, onDone)}>
    <p>${job.task} <code>${job.id}</code>. ${words ?? result}</p>
    <div class="field"><label for=${id}>Reason</label>
      <input id=${id} value=${reason} maxlength="1024" placeholder="cancelled by an operator" autocomplete="off"
        autofocus onInput=${(event) => set(event.target.value)} />
      <p class="hint">Kept with the ${noun}.</p></div>
  <//>`;
}

const SHORTCUTS = [["Now", 0], ["In 5 min", 300], ["In 1 h", 3600], ["In 1 d", 86400]];

function Reschedule({ job, onClose, onDone }) {
  const [when, set] = useState(toFieldText(job.run_at));
  const run = async () => (await post(at(job, "reschedule"), { at: toInstant(when) }), "Rescheduled.");
  return html`<${FormDialog} title="Reschedule this job" action="Reschedule" ready=${toInstant(when) !== null}
    onClose=${onClose} run=${withToast(run, onDone)}>
    <${InstantField} label="Due at" text=${when} onText=${set} required />
    <p class="row">${SHORTCUTS.map(([words, seconds]) => html`
      <button key=${words} type="button"
        onClick=${() => set(toFieldText(now() + seconds * 1000))}>${words}</button>`)}</p>
  <//>`;
}
