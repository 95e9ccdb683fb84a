// The buttons of a job's row: the actions that its state and the viewer's role allow.
import { post, remove, segment } from "../api.js";
import { html } from "../html.js";
import { useSession } from "../session.js";
import { ActionButton } from "./action_button.js";
import { confirm } from "./dialog.js";

/** action: label of the button, icon, and result. */
export const ACTIONS = {
  retry: ["Retry", "retrying", "Queued again"],
  resume: ["Resume", "play", "Resumed"],
  pause: ["Pause", "pause", "Paused"],
  cancel: ["Cancel", "cancelled", "Cancelled"],
  delete: ["Delete", "trash", "Deleted"],
};

const path = (job, action) =>
  (action === "delete" ? remove(`jobs/${segment(job.id)}`) : post(`jobs/${segment(job.id)}/${action}`));

const QUESTIONS = {
  cancel: (job) => ({
    title: `Cancel ${job.task}?`, action: "Cancel job", dismiss: "Back", danger: true,
    words: job.shown === "running"
      ? "It is running: its worker interrupts it. What it has done so far is not undone."
      : "It does not run, unless it is retried.",
  }),
  delete: (job) => ({
    title: `Delete ${job.task}?`, action: "Delete", danger: true,
    words: "The job, its history and its log are deleted. This cannot be undone.",
  }),
};

/** Executes an action, after a confirmation if it is hard to undo. Returns the text of a toast; null if dismissed. */
async function actOn(job, action) {
  const stops = action === "cancel" && job.shown === "running";
  const result = `${stops ? "Cancellation requested" : ACTIONS[action][2]}: ${job.task}.`;
  const question = QUESTIONS[action]?.(job);
  if (!question) return (await path(job, action), result);
  const done = await confirm({ ...question, run: () => path(job, action).then(() => null) });
  return done ? result : null;
}

/** `only` lists the actions to show, in this order; `words` shows their labels beside the icons. */
export function RowActions({ job, only = ["retry", "resume", "cancel"], words = true, onDone }) {
  const session = useSession();
  if (!session.may("operator", "jobs")) return null;
  const run = (action) => async () => {
    const result = await actOn(job, action);
    if (result) await onDone?.(action);
    return result;
  };
  return only.filter((action) => job.can.includes(action)).map((action) => {
    const [word, icon] = ACTIONS[action];
    return html`<${ActionButton} key=${action} kind="quiet" icon=${icon} run=${run(action)} title=${`${word} this job`}
      label=${words ? undefined : word}>${words && word}<//>`;
  });
}
