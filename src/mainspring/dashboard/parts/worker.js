// A worker as others show it: its state with a shape, its name as a link, its slots as a bar; and orders for it.
import { get, post, segment } from "../api.js";
import { now } from "../clock.js";
import { count, duration, plural } from "../format.js";
import { html, useState } from "../html.js";
import { useSession } from "../session.js";
import { Act } from "./act.js";
import { confirm } from "./dialog.js";
import { Field, FormDialog } from "./form.js";
import { Icon } from "./icons.js";
import { Meter } from "./meter.js";
import { toast } from "./toast.js";

/** By state: look, shape and meaning. */
const LOOKS = {
  open: ["completed", "completed", "takes jobs"],
  draining: ["paused", "down", "takes nothing new; what it runs goes on"],
  drained: ["paused", "pause", "takes nothing and runs nothing, until it is resumed"],
  resuming: ["scheduled", "retrying", "takes jobs from its next beat on"],
  stopping: ["waiting", "ended", "takes nothing new, and ends when what it runs has, or after its grace"],
  late: ["dead", "warning", "has not been heard of for longer than it should take; it may be dead"],
  gone: ["cancelled", "failed", "has ended, or died: its lease is over"],
};
const LATE = 0.75; // of its lease, within which it beats several times

export const workerLink = (id) => `workers/${encodeURIComponent(id)}`;

/** How it is judged at the time it was read. */
function judged(worker) {
  const silent = worker.beat_at && now() - Date.parse(worker.beat_at) > Number(worker.lease) * LATE * 1000;
  return { ...worker, shown: silent ? "late" : worker.state };
}

export const loadWorkers = async (signal) => (await get("workers", {}, signal)).items.map(judged);
export const loadWorker = async (id, signal) => judged(await get(`workers/${segment(id)}`, {}, signal));

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
      title="Held by runs that ignore their interruption; a restart frees them">
      <${Icon} name="warning" />${leaked} leaked</span>`}`;
}

/** Drain or resume, resize, and stop; they are heard at its next beat. One that stops hears nothing else. */
export function WorkerActs({ worker, after }) {
  const [sizing, size] = useState(false);
  const order = async (verb, words) => (await post(`workers/${segment(worker.id)}/${verb}`), await after(), words);
  if (!useSession().may("operator", "workers")) return null;
  if (worker.state === "stopping") return null;
  const halt = () => confirm({
    title: `Stop ${worker.id}?`, action: "Stop", danger: true, words: leaving(worker),
    run: async () => void toast(await order("stop", `${worker.id} stops.`)),
  });
  return html`<span class="row">
    ${worker.orders.drained
      ? html`<${Act} icon="play" label=${`Resume worker ${worker.id}`}
        run=${() => order("resume", `${worker.id} takes jobs again.`)}>Resume<//>`
      : html`<${Act} icon="pause" label=${`Drain worker ${worker.id}`} title="Takes nothing new; what it runs goes on"
          run=${() => order("drain", `${worker.id} takes nothing new. What it runs goes on.`)}>Drain<//>`}
    <button type="button" aria-label=${`Resize worker ${worker.id}`} onClick=${() => size(true)}>Resize</button>
    ${worker.grace !== null && html`<button type="button" aria-label=${`Stop worker ${worker.id}`}
      onClick=${halt}>Stop</button>`}
    ${sizing && html`<${Resize} worker=${worker}
      onClose=${(words) => (size(false), words && (toast(words), after()))} />`}
  </span>`;
}

/** What a stop does to it. */
function leaving({ running, grace }) {
  const end = Number(grace) ? `may finish within ${duration(grace)}, the rest run elsewhere` : "will run elsewhere";
  return html`<p>It takes nothing new. ${running ? `${plural(running, "job")} ${end}.` : "It runs nothing now."}</p>
    <p>Whoever keeps the process running may start another.</p>`;
}

function Resize({ worker, onClose }) {
  const [slots, set] = useState(String(worker.orders.concurrency ?? worker.concurrency));
  const send = async (concurrency, words) =>
    (await post(`workers/${segment(worker.id)}/resize`, { concurrency }), words);
  const run = () => (slots === "" ? send(null, `${worker.id} has as many slots as it was started with.`)
    : send(Number(slots), `${worker.id} has ${slots} slots from its next beat on.`));
  return html`<${FormDialog} title=${`Resize ${worker.id}`} action="Resize" run=${run} onClose=${onClose}>
    <p>How many jobs it may run at once, until it ends. What runs now is left alone.</p>
    <${Field} label="Slots" type="number" min="1" max="100000" step="1" value=${slots} onValue=${set} autofocus
      hint="Leave it empty for as many as it was started with." />
  <//>`;
}
