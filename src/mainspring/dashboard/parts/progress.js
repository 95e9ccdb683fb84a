// The progress of a run in one line.
import { percent } from "../format.js";
import { html } from "../html.js";

/** `of` is a job's `progress`. Without a total, only the done number is shown. */
export function Progress({ of: progress }) {
  const done = Number(progress.done);
  const total = progress.total === undefined || progress.total === null ? null : Number(progress.total);
  const words = total ? percent(Math.min(1, Math.max(0, done / total))) : String(progress.done).replace(/\.0$/, "");
  return html`<span class="how-far">
    ${total ? html`<progress aria-label="Progress" value=${Math.min(done, total)} max=${total}></progress>` : null}
    <span class="number">${words}</span>${progress.note && html`<span class="muted note">${progress.note}</span>`}
  </span>`;
}
