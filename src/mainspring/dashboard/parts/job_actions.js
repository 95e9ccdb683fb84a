// What may be done with one job: the buttons of its page, and the questions they ask.
import { post, remove, segment } from "../api.js";
import { now } from "../clock.js";
import { html, useId, useState } from "../html.js";
import { go } from "../route.js";
import { useSession } from "../session.js";
import { Act } from "./act.js";
import { confirm } from "./dialog.js";
import { FormDialog, told } from "./form.js";
import { Icon } from "./icons.js";
import { JobEdit } from "./job_edit.js";
import { instant, Moment, typed } from "./moment.js";

const at = (job, action) => `jobs/${segment(job.id)}/${action}`;

/**
 * What gets it going stands with the reason why it does not go; here is the rest. Only what its state allows and
 * whoever looks may take. `changed` is told when something was done.
 */
export function JobActions({ job, changed }) {
  const { may } = useSession();
  const [open, set] = useState(null);
  if (!may("operator", "jobs")) return null;
  const can = new Set(job.can);
  const act = (action, words) => async () => (await post(at(job, action)), await changed(), words);
  const close = () => set(null);
  const erase = () => confirm({
    title: "Delete this job?", action: "Delete it", danger: true,
    words: html`<p>${job.task} <code>${job.id}</code> goes with its runs, its log and its result.
      This cannot be undone.</p>`,
    run: async () => (await remove(`jobs/${segment(job.id)}`), go("jobs"), null),
  });
  return html`
    ${can.has("pause")
      && html`<${Act} icon="pause" run=${act("pause", "It is held back until it is resumed.")}>Pause<//>`}
    ${can.has("update") && html`<button onClick=${() => set("when")}><${Icon} name="scheduled" />Reschedule</button>
      <button onClick=${() => set("edit")}><${Icon} name="edit" />Edit</button>`}
    ${can.has("cancel") && html`<button onClick=${() => set("cancel")}><${Icon} name="cancelled" />Cancel</button>`}
    ${can.has("delete") && html`<button class="quiet" aria-label="Delete" title="Delete" onClick=${erase}>
      <${Icon} name="trash" /></button>`}
    ${open === "cancel" && html`<${Cancel} job=${job} onClose=${close} onDone=${changed} />`}
    ${open === "when" && html`<${When} job=${job} onClose=${close} onDone=${changed} />`}
    ${open === "edit" && html`<${JobEdit} job=${job} onClose=${close} onDone=${changed} />`}`;
}

function Cancel({ job, onClose, onDone }) {
  const [reason, set] = useState("");
  const id = useId();
  const running = job.state === "running";
  const words = running
    ? "It is interrupted at its worker's next beat."
    : "It will never run. It can be retried later.";
  const run = async () => {
    await post(at(job, "cancel"), reason ? { reason } : undefined);
    return running ? "It is asked to stop." : "It is cancelled.";
  };
  return html`<${FormDialog} title="Cancel this job?" action="Cancel the job" danger onClose=${onClose}
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
  const run = async () => (await post(at(job, "reschedule"), { at: instant(when) }), "It has another time now.");
  return html`<${FormDialog} title="When shall it run?" action="Reschedule" ready=${instant(when) !== null}
    onClose=${onClose} run=${told(run, onDone)}>
    <${Moment} label="Due at" text=${when} onText=${set} required />
    <p class="row">${SOON.map(([words, seconds]) => html`
      <button key=${words} type="button" onClick=${() => set(typed(now() + seconds * 1000))}>${words}</button>`)}</p>
  <//>`;
}
