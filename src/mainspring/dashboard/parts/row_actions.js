// What may be done to one job, as buttons: only what it allows now, and what the viewer may do.
import { post, remove, segment } from "../api.js";
import { html } from "../html.js";
import { useSession } from "../session.js";
import { Act } from "./act.js";
import { confirm } from "./dialog.js";

/** action: word on the button, icon, what was done. */
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

/** Does it, after a question where it is hard to undo; returns the words of a toast. */
async function actOn(job, action) {
  const stops = action === "cancel" && job.shown === "running";
  const told = `${stops ? "Cancellation requested" : ACTIONS[action][2]}: ${job.task}.`;
  const question = QUESTIONS[action]?.(job);
  if (!question) return (await path(job, action), told);
  const done = await confirm({ ...question, run: () => path(job, action).then(() => null) });
  return done ? told : null;
}

/** `only` names those to be drawn, in that order; `words` writes them beside the icons. */
export function RowActions({ job, only = ["retry", "resume", "cancel"], words = true, onDone }) {
  const session = useSession();
  if (!session.may("operator", "jobs")) return null;
  const run = (action) => async () => {
    const told = await actOn(job, action);
    if (told) await onDone?.(action);
    return told;
  };
  return only.filter((action) => job.can.includes(action)).map((action) => {
    const [word, icon] = ACTIONS[action];
    return html`<${Act} key=${action} kind="quiet" icon=${icon} run=${run(action)} title=${`${word} this job`}
      label=${words ? undefined : word}>${words && word}<//>`;
  });
}
