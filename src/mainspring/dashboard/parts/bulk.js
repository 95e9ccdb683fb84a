// Bulk actions: the bar with the actions, and the dialog with the count, the progress and the result.
import { count, plural } from "../format.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icons.js";
import { ErrorNotice } from "./page.js";

/*
 * `kind` describes the rows: JOBS of job_bulk.js or SCHEDULES of schedule_bulk.js. { noun, none, link(id), offered,
 * actions }; `none` is the text if the action applies to no row. Each action is { verb, icon, done, follows, danger,
 * preview(choice, onProgress, signal), perform(choice, values, onProgress, signal), Fields, isReady(values), asCounted,
 * phrase(things) }: its texts, its functions (with results as in ../bulk.js), and a form for its values. `asCounted`:
 * only the counted rows are changed, not others that match the filter later.
 */

/**
 * `words` and `what` describe the selection in the bar and in the question; `choice` is { ids } or { filter }; `allows`
 * lists the actions that some of the rows allow, if known.
 */
export function BulkBar({ kind, words, what, choice, allows = kind.offered, onClear, onDone, children }) {
  const [action, ask] = useState(null);
  useEffect(() => () => requestAnimationFrame(restoreFocus), []);
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

/** Focuses the heading if the focused button was removed with the bar. */
function restoreFocus() {
  if (document.activeElement === document.body) document.querySelector("h1")?.focus();
}

/**
 * Counts, asks, works and shows the result. `onDone` is called after the work, `onClose` with whether it was done;
 * `example` has the arguments of one of the jobs, if they can be changed.
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
      const sum = await work((sum) => set((now) => ({ ...now, sum })), mine.signal);
      set({ name: next, sum, error: null });
    } catch (error) {
      set((now) => ({ name: next, sum: now.sum, error }));
    }
    if (next === "result") onDone();
  };
  useEffect(() => {
    go("counting", (onProgress, signal) => action.preview(choice, onProgress, signal), "question");
    return () => stop.current?.abort();
  }, []);
  // The focused button was removed with its step.
  useEffect(() => document.querySelector("dialog[open] footer button")?.focus(), [step.name]);
  const begin = () => {
    const counted = action.asCounted && step.sum?.more === false ? step.sum : null;
    const selected = counted ? { ids: counted.ids } : choice;
    const work = async (onProgress, signal) =>
      withSkipped(await action.perform(selected, values, onProgress, signal), counted);
    go("working", work, "result");
  };
  const title = step.name === "result" ? `${plainVerb(action)}: result` : `${actionPhrase(action, what)}?`;
  const halt = () => (stop.current.abort(), set((now) => ({ ...now, stopping: true })));
  const close = () => onClose(step.name === "result");
  return html`<${Dialog} title=${title} onClose=${close}>
    <${Step} step=${step} kind=${kind} action=${action} values=${values} give=${give} example=${example}
      onStop=${halt} onBegin=${begin} onClose=${close} />
  <//>`;
}

/** The result, including the rows that the count skipped. */
function withSkipped(sum, counted) {
  if (!counted) return sum;
  return { ...sum, left: sum.left + counted.left, refused: new Map([...counted.refused, ...sum.refused]) };
}

const plainVerb = ({ verb }) => verb.replace("…", "");
/** "Pause 3 schedules". */
const actionPhrase = (action, things) => action.phrase?.(things) ?? `${plainVerb(action)} ${things}`;

function Step({ step, ...rest }) {
  const { done, left } = step.sum ?? { done: 0, left: 0 };
  const going = {
    counting: [`Counting… ${count(done)}`, "Stop counting"],
    working: [`${count(done)} done, ${count(left)} skipped`, "Stop"],
  };
  const [words, stop] = going[step.name] ?? [];
  if (words) return html`<${Working} step=${step} words=${words} stop=${stop} ...${rest} />`;
  return html`<${step.name === "question" ? Question : Result} step=${step} ...${rest} />`;
}

function Working({ step, words, stop, onStop }) {
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
      ${step.error && html`<${ErrorNotice} error=${step.error} />`}
      <p>${none ? kind.none : html`
        <b>${sum.more ? "More than " : ""}${plural(sum.done, kind.noun)}</b>. ${action.follows}`}</p>
      <${Refusals} sum=${sum} kind=${kind} words="would be skipped" />
      ${action.Fields && !none && html`<${action.Fields} values=${values} give=${give} example=${example} />`}
    </div>
    <footer><button onClick=${onClose} autofocus>${action.verb === "Cancel" ? "Back" : "Cancel"}</button>
      ${!none && html`<button class=${action.danger ? "danger" : "primary"} disabled=${!ready}
          onClick=${onBegin}>
        ${actionPhrase(action, sum.more ? "all of them" : plural(sum.done, kind.noun))}</button>`}</footer>`;
}

function Result({ step, kind, action, onClose }) {
  const sum = step.sum ?? { done: 0, left: 0, refused: new Map() };
  return html`<div class="body" aria-live="polite">
      ${step.error && html`<${ErrorNotice} error=${step.error} />`}
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
