// Parts of worker pages: state, link and slots of a worker, and the commands to it.
import { get, post, segment } from "../api.js";
import { now } from "../clock.js";
import { count, duration, plural } from "../format.js";
import { html, useState } from "../html.js";
import { useSession } from "../session.js";
import { ActionButton } from "./action_button.js";
import { confirm } from "./dialog.js";
import { Field, FormDialog } from "./form.js";
import { Icon } from "./icons.js";
import { Meter } from "./meter.js";
import { toast } from "./toast.js";

/** state: [colour, icon, meaning]. */
const LOOKS = {
  open: ["completed", "completed", "accepts jobs"],
  draining: ["paused", "down", "starts no new jobs; running jobs finish"],
  drained: ["paused", "pause", "runs nothing until it is resumed"],
  resuming: ["scheduled", "retrying", "accepts jobs from its next heartbeat on"],
  stopping: [
    "waiting", "ended", "starts no new jobs; it exits when its running jobs finish, or after its grace period",
  ],
  late: ["dead", "warning", "its heartbeat is overdue; it may be dead"],
  gone: ["cancelled", "failed", "exited or died: its lease has expired"],
};
const LATE_SHARE = 0.75; // of its lease, in which a live worker sends several heartbeats

export const workerLink = (id) => `workers/${encodeURIComponent(id)}`;

/** The worker with `shown`: its state, or "late" if its heartbeat is overdue. */
function withShownState(worker) {
  const silent = worker.beat_at && now() - Date.parse(worker.beat_at) > Number(worker.lease) * LATE_SHARE * 1000;
  return { ...worker, shown: silent ? "late" : worker.state };
}

export const loadWorkers = async (signal) => (await get("workers", {}, signal)).items.map(withShownState);
export const loadWorker = async (id, signal) => withShownState(await get(`workers/${segment(id)}`, {}, signal));

export function WorkerState({ of: worker }) {
  const state = worker.shown ?? worker.state;
  const [look, icon, meaning] = LOOKS[state];
  return html`<span class=${`state state-${look}`} title=${meaning}><${Icon} name=${icon} />${state}</span>`;
}

export const WorkerLink = ({ id }) => html`<a href=${workerLink(id)}><b>${id}</b></a>`;

export function Slots({ of: worker }) {
  const { running, concurrency, leaked } = worker;
  return html`<${Meter} value=${running} most=${concurrency} label=${`Slots used of ${worker.id}`}
    words=${`${count(running)} of ${count(concurrency)}`} />
    ${leaked > 0 && html` <span class="state state-dead"
      title="Held by runs that ignore their cancellation; a restart frees them">
      <${Icon} name="warning" />${leaked} leaked</span>`}`;
}

/** Drain or resume, resize, and stop. Commands take effect at the next heartbeat; a stopping worker accepts none. */
export function WorkerActions({ worker, after }) {
  const [sizing, size] = useState(false);
  const order = async (verb, words) => (await post(`workers/${segment(worker.id)}/${verb}`), await after(), words);
  if (!useSession().may("operator", "workers")) return null;
  if (worker.state === "stopping") return null;
  const halt = () => confirm({
    title: `Stop ${worker.id}?`, action: "Stop", danger: true, words: stopWarning(worker),
    run: async () => void toast(await order("stop", `Stopping ${worker.id}.`)),
  });
  return html`<span class="row">
    ${worker.orders.drained
      ? html`<${ActionButton} icon="play" label=${`Resume worker ${worker.id}`}
        run=${() => order("resume", `Resumed ${worker.id}.`)}>Resume<//>`
      : html`<${ActionButton} icon="pause" label=${`Drain worker ${worker.id}`}
          title="Start no new jobs; running jobs finish"
          run=${() => order("drain", `Draining ${worker.id}: running jobs finish.`)}>Drain<//>`}
    <button type="button" aria-label=${`Resize worker ${worker.id}`} onClick=${() => size(true)}>Resize</button>
    ${worker.grace !== null && html`<button type="button" aria-label=${`Stop worker ${worker.id}`}
      onClick=${halt}>Stop</button>`}
    ${sizing && html`<${Resize} worker=${worker}
      onClose=${(words) => (size(false), words && (toast(words), after()))} />`}
  </span>`;
}

/** The effect of a stop. */
function stopWarning({ running, grace }) {
  const end = Number(grace)
    ? `may finish within ${duration(grace)}; the rest run on other workers` : "will run on other workers";
  return html`<p>It starts no new jobs. ${running ? `${plural(running, "job")} ${end}.` : "No job is running."}</p>
    <p>A process manager may start the worker again.</p>`;
}

function Resize({ worker, onClose }) {
  const [slots, set] = useState(String(worker.orders.concurrency ?? worker.concurrency));
  const send = async (concurrency, words) =>
    (await post(`workers/${segment(worker.id)}/resize`, { concurrency }), words);
  const run = () => (slots === "" ? send(null, `${worker.id} has its original number of slots.`)
    : send(Number(slots), `${worker.id} has ${slots} slots from its next heartbeat on.`));
  return html`<${FormDialog} title=${`Resize ${worker.id}`} action="Resize" run=${run} onClose=${onClose}>
    <p>The number of jobs it runs at once, until it exits. Running jobs are not affected.</p>
    <${Field} label="Slots" type="number" min="1" max="100000" step="1" value=${slots} onValue=${set} autofocus
      hint="Empty: the number it was started with." />
  <//>`;
}
