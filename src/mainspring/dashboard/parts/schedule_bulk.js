// What can be done to many schedules at once, for the bar and the dialog of bulk.js.
import { changeSchedules, nothing, refuse } from "../bulk.js";
import { html } from "../html.js";
import { scheduleLink } from "../route.js";
import { Field } from "./form.js";

/** The status that an action needs, and why others are skipped. */
const NEEDS = { pause: ["active", "they are not active"], resume: ["paused", "they are not paused"] };

/** What an action would change: the API itself takes those for done that are paused already. */
async function counted(action, choice, told, signal) {
  const count = (meant) => changeSchedules(meant, { action, dry_run: true }, told, signal);
  if (!NEEDS[action]) return count(choice);
  const [status, words] = NEEDS[action];
  if (!choice.ids) {
    const { filter } = choice;
    return (filter.status ?? status) === status ? count({ filter: { ...filter, status } }) : nothing();
  }
  const isAble = (id) => choice.can.get(id).includes(action);
  const able = choice.ids.filter(isAble);
  const sum = able.length ? await count({ ids: able }) : nothing();
  choice.ids.filter((id) => !isAble(id)).forEach((id) => refuse(sum, { id, words }));
  return sum;
}

/** Those that were counted are changed, and no others that fit the filter by then. */
function change(action, words, more = () => ({})) {
  return {
    ...words, asCounted: true,
    preview: (choice, told, signal) => counted(action, choice, told, signal),
    perform: (choice, values, told, signal) => changeSchedules(choice, { action, ...more(values) }, told, signal),
  };
}

const ACTIONS = {
  trigger: change("trigger", {
    verb: "Run now", icon: "play", done: "triggered", phrase: (schedules) => `Run ${schedules} now`,
    follows: "Each creates one job now, even while it is paused. Their next ticks stay.",
  }),
  pause: change("pause", {
    verb: "Pause", icon: "pause", done: "paused", Fields: Note,
    follows: "They create no jobs until they are resumed.",
  }, ({ note }) => (note ? { note } : {})),
  resume: change("resume", {
    verb: "Resume", icon: "retrying", done: "resumed", Fields: Missed,
    follows: "They create jobs again.",
  }, ({ catchUp }) => (catchUp ? { catch_up: true } : {})),
  delete: change("delete", {
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

/** What the bar offers for a row of the list. */
const ALLOWED = { active: ["pause"], paused: ["resume"] };
export const allowedOn = (row) => ["trigger", "delete", ...(ALLOWED[row.status] ?? [])];

const OWNERS = { code: "declared in code", user: "created by users" };

/** "active schedules of task a with “b” in their name": for the question. */
export function inWords({ q, status, task, owner }) {
  const parts = [
    status, "schedules", owner && OWNERS[owner], task && `of task ${task}`, q && `with “${q}” in their name`,
  ];
  return parts.filter(Boolean).join(" ");
}

function Note({ values, give }) {
  return html`<${Field} label="Note" maxlength="1000" placeholder="the reason, for others who find them paused"
    value=${values.note ?? ""} onValue=${(note) => give({ ...values, note })} />`;
}

function Missed({ values, give }) {
  return html`<p><label><input type="checkbox" checked=${Boolean(values.catchUp)}
    onChange=${(event) => give({ ...values, catchUp: event.target.checked })} />${" "}
    Catch up on ticks missed during the pause, by each schedule's own policy</label></p>`;
}
