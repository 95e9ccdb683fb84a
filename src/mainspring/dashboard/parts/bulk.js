// Acting on many jobs at once: the bar with the actions, the question with how many, the progress, the result.
import { perform, preview, redrive } from "../bulk.js";
import { parse, stringify } from "../exact.js";
import { count, plural } from "../format.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { jobLink } from "../route.js";
import { Dialog } from "./dialog.js";
import { Field } from "./form.js";
import { Icon } from "./icons.js";
import { fault, JsonEditor } from "./json_editor.js";
import { instant, Moment } from "./moment.js";
import { Trouble } from "./page.js";

/** action: word, icon, what was done, what follows from it. */
const ACTIONS = {
  retry: ["Retry", "retrying", "queued again", "They are queued again, with all their retries."],
  cancel: [
    "Cancel", "cancelled", "cancelled", "Waiting jobs never run; running jobs are interrupted by their workers.",
  ],
  pause: ["Pause", "pause", "paused", "They do not run until they are resumed."],
  resume: ["Resume", "play", "resumed", "They can run again."],
  update: ["Edit…", "edit", "changed", "Empty fields stay as they are."],
  redrive: ["Redrive", "retrying", "redriven", "They are queued again, due at once, with all their retries."],
  redrive_edited: [
    "Redrive", "edit", "redriven", "They are queued again with these arguments on top of their own, with all retries.",
  ],
  delete: ["Delete", "trash", "deleted", "The jobs, their history and their logs are deleted. This cannot be undone."],
};
/** Those of the bar; and what the API calls the others. */
const OFFERED = ["retry", "cancel", "pause", "resume", "update", "delete"];
const CALLED = { redrive: "retry" };
const DANGEROUS = ["cancel", "delete"];

/**
 * `words` say what is chosen, as a bar and `what` as a question has them; `choice` is { ids } or { filter }; `allows`
 * names what some of them allow, if that is known.
 */
export function BulkBar({ words, what, choice, allows = OFFERED, onClear, onDone, children }) {
  const [action, ask] = useState(null);
  useEffect(() => () => requestAnimationFrame(refocus), []);
  return html`<div class="bulk-bar" role="region" aria-label="Selected jobs">
    <b aria-live="polite">${words}</b>${children}
    <div class="row">${OFFERED.filter((name) => allows.includes(name)).map((name) => html`
      <button key=${name} onClick=${() => ask(name)}>
        <${Icon} name=${ACTIONS[name][1]} />${ACTIONS[name][0]}</button>`)}</div>
    <button class="quiet clear" onClick=${onClear}><${Icon} name="close" />Clear selection</button>
    ${action && html`<${BulkDialog} action=${action} what=${what} choice=${choice} onDone=${onDone}
      onClose=${(done) => (ask(null), done && onClear())} />`}
  </div>`;
}

/** The button that was pressed last may be gone with the bar. */
function refocus() {
  if (document.activeElement === document.body) document.querySelector("h1")?.focus();
}

/**
 * From counting to the result. `onDone` is called when something was done, `onClose` with whether it was; `example` is
 * the arguments of one of the jobs, where they can be changed.
 */
export function BulkDialog({ action, what, choice, example, onDone, onClose }) {
  const [verb] = ACTIONS[action];
  const [step, set] = useState({ name: "counting", sum: null, error: null });
  const [values, give] = useState({});
  const stop = useRef(null);
  const go = async (name, work, next) => {
    const mine = (stop.current = new AbortController());
    const totalOf = (sum) => (sum?.more === false ? sum.done + sum.left : undefined);
    set((now) => ({ name, sum: null, error: null, total: totalOf(now.sum) }));
    try {
      const sum = await work((told) => set((now) => ({ ...now, sum: told })), mine.signal);
      set({ name: next, sum, error: null });
    } catch (error) {
      set((now) => ({ name: next, sum: now.sum, error }));
    }
    if (next === "result") onDone();
  };
  useEffect(() => {
    go("counting", (told, signal) => counted(choice, action, told, signal), "question");
    return () => stop.current?.abort();
  }, []);
  // The button that had the focus is gone with its step.
  useEffect(() => document.querySelector("dialog[open] footer button")?.focus(), [step.name]);
  const begin = () => {
    go("working", (told, signal) => performed(choice, action, values, told, signal), "result");
  };
  const bare = verb.replace("…", "");
  const title = step.name === "result" ? `${bare}: result` : `${bare} ${what}?`;
  const halt = () => (stop.current.abort(), set((now) => ({ ...now, stopping: true })));
  const close = () => onClose(step.name === "result");
  return html`<${Dialog} title=${title} onClose=${close}>
    <${Step} step=${step} action=${action} values=${values} give=${give} example=${example}
      onStop=${halt} onBegin=${begin} onClose=${close} />
  <//>`;
}

const counted = (choice, action, told, signal) => (action === "redrive_edited"
  ? redrive(choice, { dry_run: true }, told, signal) : preview(choice, CALLED[action] ?? action, told, signal));

function performed(choice, action, values, told, signal) {
  if (action === "redrive_edited") return redrive(choice, { arguments: parse(values.arguments) }, told, signal);
  const more = action === "update" ? { update: edit(values) } : values.reason ? { reason: values.reason } : {};
  return perform(choice, { action: CALLED[action] ?? action, ...more }, told, signal);
}

function Step({ step, action, ...rest }) {
  const { done, left } = step.sum ?? { done: 0, left: 0 };
  const going = {
    counting: [`Counting… ${count(done)}`, "Stop counting"],
    working: [`${count(done)} done, ${count(left)} skipped`, "Stop"],
  };
  const [words, stop] = going[step.name] ?? [];
  if (words) return html`<${Going} step=${step} words=${words} stop=${stop} ...${rest} />`;
  if (step.name === "question") return html`<${Question} step=${step} action=${action} ...${rest} />`;
  return html`<${Result} step=${step} action=${action} ...${rest} />`;
}

function Going({ step, words, stop, onStop }) {
  const { sum, total, stopping } = step;
  return html`<div class="body" aria-live="polite"><p>${words}</p>
      <progress class="going" aria-label="Progress" max=${total}
        value=${total && (sum ? sum.done + sum.left : 0)}></progress></div>
    <footer>
      <button onClick=${onStop} disabled=${stopping} autofocus>${stopping ? "Stopping…" : stop}</button></footer>`;
}

/** Whether what is typed says something. */
function isReady(action, values) {
  if (action === "update") return Object.keys(edit(values)).length > 0;
  if (action !== "redrive_edited") return true;
  return fault(values.arguments ?? "") === null && Object.keys(parse(values.arguments)).length > 0;
}

function Question({ step, action, values, give, example, onBegin, onClose }) {
  const [verb, , , follows] = ACTIONS[action];
  const sum = step.sum ?? { done: 0, left: 0, more: true, refused: new Map() };
  const none = sum.done === 0 && !sum.more;
  const ready = !none && !step.error && isReady(action, values);
  return html`<div class="body">
      ${step.error && html`<${Trouble} error=${step.error} />`}
      <p>${none ? "None of these jobs is in a state that allows this." : html`
        <b>${sum.more ? "More than " : ""}${plural(sum.done, "job")}</b>. ${follows}`}</p>
      <${Refusals} sum=${sum} words="would be skipped" />
      ${action === "cancel" && !none && html`<${Reason} values=${values} give=${give} />`}
      ${action === "update" && !none && html`<${Edit} values=${values} give=${give} />`}
      ${action === "redrive_edited" && !none && html`<${Arguments} values=${values} give=${give} example=${example} />`}
    </div>
    <footer><button onClick=${onClose} autofocus>${action === "cancel" ? "Back" : "Cancel"}</button>
      ${!none && html`<button class=${DANGEROUS.includes(action) ? "danger" : "primary"} disabled=${!ready}
          onClick=${onBegin}>
        ${verb.replace("…", "")} ${sum.more ? "all of them" : plural(sum.done, "job")}</button>`}</footer>`;
}

function Result({ step, action, onClose }) {
  const [, , done] = ACTIONS[action];
  const sum = step.sum ?? { done: 0, left: 0, refused: new Map() };
  return html`<div class="body" aria-live="polite">
      ${step.error && html`<${Trouble} error=${step.error} />`}
      <p><b>${plural(sum.done, "job")}</b> ${done}.
        ${sum.more && !step.error ? " Stopped before the rest." : ""}</p>
      <${Refusals} sum=${sum} words="skipped" />
    </div>
    <footer><button class="primary" onClick=${onClose} autofocus>Done</button></footer>`;
}

function Refusals({ sum, words }) {
  if (!sum.left) return null;
  return html`<p>${plural(sum.left, "job")} ${words}:</p>
    <ul class="refusals">${[...sum.refused.values()].map((group) => html`<li key=${group.words}>
      ${count(group.count)}: ${group.words}${" "}
      (<a href=${jobLink(group.id)}>${group.count === 1 ? "the job" : "one of them"}</a>)</li>`)}</ul>`;
}

function Reason({ values, give }) {
  return html`<${Field} label="Reason" maxlength="1024" placeholder="cancelled by an operator"
    value=${values.reason ?? ""} onValue=${(reason) => give({ ...values, reason })} />`;
}

function Edit({ values, give }) {
  const set = (name) => (value) => give({ ...values, [name]: value });
  return html`<${Field} label="Queue" placeholder="as it is" value=${values.queue ?? ""} onValue=${set("queue")} />
    <${Field} label="Priority" type="number" placeholder="as it is"
      value=${values.priority ?? ""} onValue=${set("priority")} />
    <${Moment} label="Run at" text=${values.run_at ?? ""} onText=${set("run_at")} hint="as it is" />`;
}

/** Nothing stands there at first: arguments of one job must not go to all by a click. */
function Arguments({ values, give, example }) {
  const names = Object.keys(example ?? {});
  return html`<${JsonEditor} label="Arguments to change" text=${values.arguments ?? ""} rows=${5}
      placeholder=${example && stringify(example, "  ")} hint=${names.length > 0 && `Arguments: ${names.join(", ")}.`}
      onText=${(text) => give({ ...values, arguments: text })} />
    <p class="hint">Arguments that are not named here stay as they are. Each job's task checks them; jobs that do not
      fit are skipped.</p>`;
}

/** The new values, as the API takes them. */
function edit({ queue, priority, run_at: at }) {
  return {
    ...(queue?.trim() && { queue: queue.trim() }),
    ...(priority && { priority: Number(priority) }),
    ...(instant(at) && { run_at: instant(at) }),
  };
}
