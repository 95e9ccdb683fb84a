// Bulk actions on jobs or schedules, in batches: a count first, then the change; with the reasons for skipped ones.
import { post } from "./api.js";

const BATCH_ROWS = 1000;
const EDIT_BATCH_ROWS = 200; // jobs of a batch whose arguments change: each is written separately
const MAX_COUNT_BATCHES = 50; // batches counted before the question; beyond, the count is "more than"

/**
 * `choice` is { ids } or { filter }. `send(selection)` posts one batch and returns { done: ids, refused: [{ id, words
 * }], next }. Calls `onProgress({ done, ids, refused, left, more })` after each batch, and stops when `signal` is
 * aborted. A count ends after `maxBatches`, and has the `ids`.
 */
async function inBatches(send, choice, onProgress, signal, { maxBatches = Infinity, limit = BATCH_ROWS } = {}) {
  const total = emptyResult();
  const parts = choice.ids ? batchesOf(choice.ids) : null;
  let after = null;
  for (let n = 0; n < maxBatches && !signal.aborted; n++) {
    // A batch that was sent is not aborted: its result would be unknown.
    const answer = await send(parts ? { ids: parts[n] } : { filter: choice.filter, limit, after });
    total.done += answer.done.length;
    if (maxBatches < Infinity) total.ids.push(...answer.done);
    answer.refused.forEach((one) => addRefusal(total, one));
    after = answer.next;
    total.more = parts ? n + 1 < parts.length : after !== null;
    onProgress({ ...total });
    if (!total.more) break;
  }
  return total;
}

/** The result of inBatches() if nothing is selected. */
export const emptyResult = () => ({ done: 0, ids: [], refused: new Map(), left: 0, more: false });

function batchesOf(ids) {
  const length = Math.ceil(ids.length / BATCH_ROWS);
  return Array.from({ length }, (_, n) => ids.slice(n * BATCH_ROWS, (n + 1) * BATCH_ROWS));
}

/** Adds a refusal to the result. Refusals with the same reason are one entry: { words, count, id }. */
export function addRefusal(total, { id, words }) {
  const group = total.refused.get(words) ?? { words, count: 0, id };
  total.refused.set(words, { ...group, count: group.count + 1 });
  total.left += 1;
}

const batchLimit = (request) => (request.dry_run ? MAX_COUNT_BATCHES : Infinity);

const sendJobs = (path, request) => async (which) => {
  const { ids, refused, next } = await post(path, { ...request, ...which });
  return { done: ids, refused: refused.map((one) => ({ id: one.id, words: refusalText(one) })), next };
};

const refusalText = ({ id, code, detail, state }) =>
  (code === "invalid_transition" && state ? `they are ${state}` : detail.replaceAll(id, "…"));

/** Changes jobs. `request` is the body of POST jobs/bulk; with `dry_run` the jobs are only counted. */
export const changeJobs = (choice, request, onProgress, signal) =>
  inBatches(sendJobs("jobs/bulk", request), choice, onProgress, signal, { maxBatches: batchLimit(request) });

/** Redrives dead jobs, optionally with changed arguments; with `dry_run` they are only counted. */
export const redriveJobs = (choice, request, onProgress, signal) =>
  inBatches(sendJobs("dead/redrive", request), choice, onProgress, signal,
    { maxBatches: batchLimit(request), limit: request.arguments ? EDIT_BATCH_ROWS : BATCH_ROWS });

/** The selection in a request body. An empty filter selects all schedules. */
const selectionBody = ({ ids, filter, ...rest }) =>
  (ids ? { names: ids } : Object.keys(filter).length ? { filter, ...rest } : { all: true, ...rest });

/** Changes schedules. `request` is the body of POST scheduler/bulk. */
export function changeSchedules(choice, request, onProgress, signal) {
  const send = async (which) => {
    const { done, refused, next } = await post("scheduler/bulk", { ...request, ...selectionBody(which) });
    const why = Object.entries(refused).map(([id, words]) => ({ id, words: words.replaceAll(id, "…") }));
    return { done, refused: why, next };
  };
  return inBatches(send, choice, onProgress, signal, { maxBatches: batchLimit(request) });
}
