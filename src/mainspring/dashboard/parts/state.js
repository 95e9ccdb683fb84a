// A job's state: a colour, a shape and a word.
import { html } from "../html.js";
import { Icon } from "./icons.js";

/** In the order of a job's life. */
export const STATES = [
  "pending", "scheduled", "retrying", "running", "waiting", "paused", "completed", "dead", "cancelled", "expired",
];
export const MEANING = {
  pending: "due, and waits for a worker", scheduled: "its time has not come",
  retrying: "failed, and will be tried again",
  running: "a worker has it", waiting: "waits for other jobs", paused: "somebody has paused it",
  completed: "has done its work", dead: "failed for good", cancelled: "somebody has cancelled it",
  expired: "was not started in time", partial: "has done its work, but some of its items failed",
};

/** Also for the ending of one run: failed, timeout, crashed, … */
export function State({ of: state, word = state }) {
  return html`<span class=${`state state-${state}`} title=${MEANING[state]}><${Icon} name=${state} />${word}</span>`;
}
