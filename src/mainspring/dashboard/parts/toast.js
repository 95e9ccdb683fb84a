// Toasts: short messages about the result of an action. They are read out by screen readers and disappear.
import { html, useEffect, useState } from "../html.js";
import { Icon } from "./icons.js";

const SHOWN_MS = 6000;
let show = () => {};
let number = 0;

/** `kind` is "good" or "bad"; a bad toast stays until it is closed. */
export const toast = (text, kind = "good") => show({ text, kind, id: ++number });

export function Toasts() {
  const [items, set] = useState([]);
  const close = (id) => set((all) => all.filter((one) => one.id !== id));
  useEffect(() => {
    show = (item) => {
      set((all) => [...all.slice(-3), item]);
      if (item.kind === "good") setTimeout(() => close(item.id), SHOWN_MS);
    };
  }, []);
  return html`<div class="toasts" role="status" aria-live="polite">
    ${items.map((item) => html`<div key=${item.id} class=${`toast toast-${item.kind}`}>
      <${Icon} name=${item.kind === "good" ? "completed" : "warning"} /><span>${item.text}</span>
      <button class="quiet" aria-label="Close this message" onClick=${() => close(item.id)}>
        <${Icon} name="close" /></button>
    </div>`)}
  </div>`;
}
