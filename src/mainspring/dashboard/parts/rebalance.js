// The dialog that moves interval schedules to times with fewer ticks: first the plan, then the change.
import { post } from "../api.js";
import { clockTime, duration, percent, plural } from "../format.js";
import { html } from "../html.js";
import { useData } from "../live.js";
import { scheduleLink } from "../route.js";
import { FormDialog, withToast } from "./form.js";
import { Loaded } from "./page.js";

const NOT_MOVED = { running: "is running", imminent: "is about to tick", fresh: "was moved recently" };
const MAX_ROWS = 50;

export function Rebalance({ onClose, onDone }) {
  const plan = useData((signal) => post("scheduler/rebalance", { dry_run: true }, { signal }), []);
  const moves = plan.value?.moves ?? [];
  const run = async () => {
    const { moves, changed, after } = await post("scheduler/rebalance", { dry_run: false });
    const others = plural(changed.length, "other was", "others were");
    const left = changed.length ? ` ${others} changed in the meantime and not moved.` : "";
    return `${plural(moves.length, "schedule was", "schedules were")} moved: ${percent(Number(after))} even.${left}`;
  };
  const action = moves.length ? `Move ${plural(moves.length, "schedule")}` : "Move";
  return html`<${FormDialog} title="Rebalance" action=${action} ready=${moves.length > 0} wide
      run=${withToast(run, onDone)} onClose=${onClose}>
    <p>Moves intervals declared with <code>spread</code> to times with fewer ticks.
      No tick is lost or doubled.</p>
    <${Loaded} data=${plan}>${(value) => html`<${Plan} plan=${value} />`}<//>
  <//>`;
}

function Plan({ plan }) {
  const { moves, left, before, after } = plan;
  const stays = left.slice(0, MAX_ROWS).map(({ name, why }) => `${name} (${NOT_MOVED[why] ?? why})`).join(", ");
  return html`
    ${moves.length
      ? html`<p><b>${percent(Number(before))} even</b> now, <b>${percent(Number(after))}</b> afterwards:</p>
        <div class="table"><table>
          <thead><tr>
            <th scope="col">Schedule</th><th scope="col">Interval</th>
            <th scope="col">Next tick</th><th scope="col">Would be</th></tr></thead>
          <tbody>${moves.slice(0, MAX_ROWS).map((move) => html`<tr key=${move.name}>
            <td data-label="Schedule"><a href=${scheduleLink(move.name)}>${move.name}</a></td>
            <td data-label="Interval">${duration(Number(move.interval))}</td>
            <td data-label="Next tick">${clockTime(move.from_at)}</td>
            <td data-label="Would be">${clockTime(move.to_at)}</td></tr>`)}</tbody></table></div>
        ${moves.length > MAX_ROWS && html`<p class="muted">and ${moves.length - MAX_ROWS} more</p>`}`
      : html`<p><b>Nothing to move.</b> The load is ${percent(Number(before))} even, and no interval declared
          with <code>spread</code> would be better elsewhere.</p>`}
    ${left.length > 0 && html`<p class="muted">Not moved: ${stays}.</p>`}`;
}
