// A job's state, shown as colour, icon and word.
import { html } from "../html.js";
import { Icon } from "./icons.js";

/** In the order of a job's life cycle. */
export const STATES = [
  "pending", "scheduled", "retrying", "running", "waiting", "paused", "completed", "dead", "cancelled", "expired",
];
export const MEANING = {
  pending: "due, waiting for a worker", scheduled: "not due yet", retrying: "failed, waiting for the next attempt",
  running: "running on a worker", waiting: "waiting for other jobs", paused: "paused by an operator",
  completed: "finished successfully", dead: "failed, without further retries", cancelled: "cancelled",
  expired: "not started in time", partial: "finished, but some of its items failed",
};

/** Also for the ending of one run: failed, timeout, crashed, … */
export function State({ of: state, word = state }) {
  return html`<span class=${`state state-${state}`} title=${MEANING[state]}><${Icon} name=${state} />${word}</span>`;
}
