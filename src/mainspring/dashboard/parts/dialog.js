// Modal dialogs, which close on Esc; and the confirmation before a change that cannot be undone.
import { html, useEffect, useId, useRef, useState } from "../html.js";
import { Icon } from "./icons.js";

/** A modal dialog, open while it is rendered. */
export function Dialog({ title, onClose, wide = false, children }) {
  const ref = useRef();
  const id = useId();
  useEffect(() => {
    const dialog = ref.current, before = document.activeElement;
    dialog.showModal();
    const lost = () => before?.isConnected && document.activeElement === document.body;
    return () => (dialog.close(), requestAnimationFrame(() => lost() && before.focus()));
  }, []);
  const cancelled = (event) => (event.preventDefault(), onClose());
  return html`<dialog ref=${ref} class=${wide ? "wide" : ""} aria-labelledby=${id} onCancel=${cancelled}>
    <header><h2 id=${id}>${title}</h2>
      <button class="quiet" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button></header>
    ${children}
  </dialog>`;
}

let open = () => {};

/**
 * Asks for confirmation, calls `run`, and shows its result. `run` is async and may return a text or html for the
 * dialog; without a result it closes. `dismiss` is the label of the other button. Resolves to whether `run` succeeded.
 */
export const confirm = ({ title, words, action, dismiss = "Cancel", danger = false, run }) =>
  new Promise((done) => open({ title, words, action, dismiss, danger, run, done, id: Math.random() }));

/** Renders the questions of confirm(). Used once, in the app shell. */
export function Questions() {
  const [asked, set] = useState(null);
  useEffect(() => void (open = set), []);
  return asked && html`<${Question} key=${asked.id} asked=${asked} onClose=${() => set(null)} />`;
}

function Question({ asked, onClose }) {
  const [state, set] = useState({ busy: false, error: null, result: null, done: false });
  const close = () => (asked.done(state.done), onClose());
  const act = async () => {
    set({ ...state, busy: true, error: null });
    try {
      const result = await asked.run();
      if (result) set({ busy: false, error: null, result, done: true });
      else (asked.done(true), onClose());
    } catch (error) {
      set({ busy: false, error, result: null, done: false });
    }
  };
  return html`<${Dialog} title=${asked.title} onClose=${close}>
    <div class="body" aria-live="polite">${state.result ?? asked.words}
      ${state.error && html`<p class="error" role="alert">${state.error.message}</p>`}</div>
    <footer>
      ${state.done
        ? html`<button class="primary" onClick=${close} autofocus>Done</button>`
        : html`<button onClick=${close} autofocus>${asked.dismiss}</button>
          <button class=${asked.danger ? "danger" : "primary"} disabled=${state.busy} onClick=${act}>
            ${state.busy ? "Working…" : asked.action}</button>`}
    </footer>
  <//>`;
}
