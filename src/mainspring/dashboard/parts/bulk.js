// Acting on many things at once: the bar with the actions, the question with how many, the progress, the result.
import { count, plural } from "../format.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icons.js";
import { Trouble } from "./page.js";

/*
 * What is acted on is a `kind`, of job_bulk.js or schedule_bulk.js: { noun, none, link(id), offered, actions }, with
 * `none` for a question that means no one of them. Each action is { verb, icon, done, follows, danger, preview(choice,
 * told, signal), perform(choice, values, told, signal), Fields, isReady(values), asCounted, phrase(things) }: its
 * words, what it does, as bulk.js answers, and what may be typed first. `asCounted`: what was counted is changed, and
 * no other that the filter means by then.
 */

/**
 * `words` say what is chosen, as a bar and `what` as a question has them; `choice` is { ids } or { filter }; `allows`
 * names what some of them allow, if that is known.
 */
export function BulkBar({ kind, words, what, choice, allows = kind.offered, onClear, onDone, children }) {
  const [action, ask] = useState(null);
  useEffect(() => () => requestAnimationFrame(refocus), []);
  return html`<div class="bulk-bar" role="region" aria-label=${`Selected ${kind.noun}s`}>
    <b aria-live="polite">${words}</b>${children}
    <div class="row">${kind.offered.filter((name) => allows.includes(name)).map((name) => html`
      <button key=${name} onClick=${() => ask(name)}>
        <${Icon} name=${kind.actions[name].icon} />${kind.actions[name].verb}</button>`)}</div>
    <button class="quiet clear" aria-label="Clear selection" title="Clear selection" onClick=${onClear}>
      <${Icon} name="close" /><span>Clear selection</span></button>
    ${action && html`<${BulkDialog} kind=${kind} action=${action} what=${what} choice=${choice} onDone=${onDone}
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
export function BulkDialog({ kind, action: name, what, choice, example, onDone, onClose }) {
  const action = kind.actions[name];
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
    go("counting", (told, signal) => action.preview(choice, told, signal), "question");
    return () => stop.current?.abort();
  }, []);
  // The button that had the focus is gone with its step.
  useEffect(() => document.querySelector("dialog[open] footer button")?.focus(), [step.name]);
  const begin = () => {
    const counted = action.asCounted && step.sum?.more === false ? step.sum : null;
    const meant = counted ? { ids: counted.ids } : choice;
    const work = async (told, signal) => withSkipped(await action.perform(meant, values, told, signal), counted);
    go("working", work, "result");
  };
  const title = step.name === "result" ? `${bare(action)}: result` : `${phrase(action, what)}?`;
  const halt = () => (stop.current.abort(), set((now) => ({ ...now, stopping: true })));
  const close = () => onClose(step.name === "result");
  return html`<${Dialog} title=${title} onClose=${close}>
    <${Step} step=${step} kind=${kind} action=${action} values=${values} give=${give} example=${example}
      onStop=${halt} onBegin=${begin} onClose=${close} />
  <//>`;
}

/** The result, with those that the question left out. */
function withSkipped(sum, counted) {
  if (!counted) return sum;
  return { ...sum, left: sum.left + counted.left, refused: new Map([...counted.refused, ...sum.refused]) };
}

const bare = ({ verb }) => verb.replace("…", "");
/** "Pause 3 schedules". */
const phrase = (action, things) => action.phrase?.(things) ?? `${bare(action)} ${things}`;

function Step({ step, ...rest }) {
  const { done, left } = step.sum ?? { done: 0, left: 0 };
  const going = {
    counting: [`Counting… ${count(done)}`, "Stop counting"],
    working: [`${count(done)} done, ${count(left)} skipped`, "Stop"],
  };
  const [words, stop] = going[step.name] ?? [];
  if (words) return html`<${Going} step=${step} words=${words} stop=${stop} ...${rest} />`;
  return html`<${step.name === "question" ? Question : Result} step=${step} ...${rest} />`;
}

function Going({ step, words, stop, onStop }) {
  const { sum, total, stopping } = step;
  return html`<div class="body" aria-live="polite"><p>${words}</p>
      <progress class="going" aria-label="Progress" max=${total}
        value=${total && (sum ? sum.done + sum.left : 0)}></progress></div>
    <footer>
      <button onClick=${onStop} disabled=${stopping} autofocus>${stopping ? "Stopping…" : stop}</button></footer>`;
}

function Question({ step, kind, action, values, give, example, onBegin, onClose }) {
  const sum = step.sum ?? { done: 0, left: 0, more: true, refused: new Map() };
  const none = sum.done === 0 && !sum.more;
  const ready = !none && !step.error && (action.isReady?.(values) ?? true);
  return html`<div class="body">
      ${step.error && html`<${Trouble} error=${step.error} />`}
      <p>${none ? kind.none : html`
        <b>${sum.more ? "More than " : ""}${plural(sum.done, kind.noun)}</b>. ${action.follows}`}</p>
      <${Refusals} sum=${sum} kind=${kind} words="would be skipped" />
      ${action.Fields && !none && html`<${action.Fields} values=${values} give=${give} example=${example} />`}
    </div>
    <footer><button onClick=${onClose} autofocus>${action.verb === "Cancel" ? "Back" : "Cancel"}</button>
      ${!none && html`<button class=${action.danger ? "danger" : "primary"} disabled=${!ready}
          onClick=${onBegin}>
        ${phrase(action, sum.more ? "all of them" : plural(sum.done, kind.noun))}</button>`}</footer>`;
}

function Result({ step, kind, action, onClose }) {
  const sum = step.sum ?? { done: 0, left: 0, refused: new Map() };
  return html`<div class="body" aria-live="polite">
      ${step.error && html`<${Trouble} error=${step.error} />`}
      <p><b>${plural(sum.done, kind.noun)}</b> ${action.done}.
        ${sum.more && !step.error ? " Stopped before the rest." : ""}</p>
      <${Refusals} sum=${sum} kind=${kind} words="skipped" />
    </div>
    <footer><button class="primary" onClick=${onClose} autofocus>Done</button></footer>`;
}

function Refusals({ sum, kind, words }) {
  if (!sum.left) return null;
  return html`<p>${plural(sum.left, kind.noun)} ${words}:</p>
    <ul class="refusals">${[...sum.refused.values()].map((group) => html`<li key=${group.words}>
      ${count(group.count)}: ${group.words}${" "}
      (<a href=${kind.link(group.id)}>${group.count === 1 ? `the ${kind.noun}` : "one of them"}</a>)</li>`)}</ul>`;
}
