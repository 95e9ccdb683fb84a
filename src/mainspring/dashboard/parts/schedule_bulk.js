// The bulk actions on schedules, for the bar and the dialog of bulk.js.
import { changeSchedules, emptyResult, addRefusal } from "../bulk.js";
import { html } from "../html.js";
import { scheduleLink } from "../route.js";
import { Field } from "./form.js";

/** The status that an action requires, and the reason why others are skipped. */
const REQUIRED_STATUS = { pause: ["active", "they are not active"], resume: ["paused", "they are not paused"] };

/** Counts the schedules that an action would change. The API would count those that are paused already as done. */
async function countChanges(action, choice, onProgress, signal) {
  const count = (selected) => changeSchedules(selected, { action, dry_run: true }, onProgress, signal);
  if (!REQUIRED_STATUS[action]) return count(choice);
  const [status, words] = REQUIRED_STATUS[action];
  if (!choice.ids) {
    const { filter } = choice;
    return (filter.status ?? status) === status ? count({ filter: { ...filter, status } }) : emptyResult();
  }
  const isAble = (id) => choice.can.get(id).includes(action);
  const able = choice.ids.filter(isAble);
  const sum = able.length ? await count({ ids: able }) : emptyResult();
  choice.ids.filter((id) => !isAble(id)).forEach((id) => addRefusal(sum, { id, words }));
  return sum;
}

/** A bulk action: only the counted schedules are changed, not others that match the filter later. */
function bulkAction(action, words, more = () => ({})) {
  return {
    ...words, asCounted: true,
    preview: (choice, onProgress, signal) => countChanges(action, choice, onProgress, signal),
    perform: (choice, values, onProgress, signal) =>
      changeSchedules(choice, { action, ...more(values) }, onProgress, signal),
  };
}

const ACTIONS = {
  trigger: bulkAction("trigger", {
    verb: "Run now", icon: "play", done: "triggered", phrase: (schedules) => `Run ${schedules} now`,
    follows: "Each creates one job now, even while it is paused. Their next ticks stay.",
  }),
  pause: bulkAction("pause", {
    verb: "Pause", icon: "pause", done: "paused", Fields: Note,
    follows: "They create no jobs until they are resumed.",
  }, ({ note }) => (note ? { note } : {})),
  resume: bulkAction("resume", {
    verb: "Resume", icon: "retrying", done: "resumed", Fields: CatchUp,
    follows: "They create jobs again.",
  }, ({ catchUp }) => (catchUp ? { catch_up: true } : {})),
  delete: bulkAction("delete", {
    verb: "Delete", icon: "trash", done: "deleted", danger: true,
    follows: `They create no more jobs, and their history is deleted. Jobs that they have created stay. Schedules that
      are declared in code are created again when the next worker starts.`,
  }),
};

export const SCHEDULES = {
  noun: "schedule", link: scheduleLink, actions: ACTIONS,
  none: "None of these schedules is in a state that allows this.",
  offered: ["trigger", "pause", "resume", "delete"],
};

/** The actions that a row of the list allows. */
const ALLOWED = { active: ["pause"], paused: ["resume"] };
export const allowedOn = (row) => ["trigger", "delete", ...(ALLOWED[row.status] ?? [])];

const OWNERS = { code: "declared in code", user: "created by users" };

/** The filter in words: "active schedules of task a with “b” in their name". */
export function describeFilter({ q, status, task, owner }) {
  const parts = [
    status, "schedules", owner && OWNERS[owner], task && `of task ${task}`, q && `with “${q}” in their name`,
  ];
  return parts.filter(Boolean).join(" ");
}

function Note({ values, give }) {
  return html`<${Field} label="Note" maxlength="1000" placeholder="the reason, for others who find them paused"
    value=${values.note ?? ""} onValue=${(note) => give({ ...values, note })} />`;
}

function CatchUp({ values, give }) {
  return html`<p><label><input type="checkbox" checked=${Boolean(values.catchUp)}
    onChange=${(event) => give({ ...values, catchUp: event.target.checked })} />${" "}
    Catch up on ticks missed during the pause, by each schedule's own policy</label></p>`;
}
