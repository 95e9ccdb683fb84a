// The same to many jobs or schedules, in lots: how many it would be, then doing it, and why some were skipped.
import { post } from "./api.js";

const LOT = 1000;
const EDITED = 200; // jobs of a lot whose arguments are changed: each of them is written by itself
const ENOUGH = 50; // lots that are counted before the question; what is more is "more than"

/**
 * `choice`: { ids } or { filter }. `send(which)` posts one lot: { done: ids, refused: [{ id, words }], next }. Calls
 * `told({ done, ids, refused, left, more })` after each lot, and begins no other when `signal` says so; `ids` are those
 * of a count, which ends after `most` lots.
 */
async function lots(send, choice, told, signal, { most = Infinity, limit = LOT } = {}) {
  const sum = nothing();
  const parts = choice.ids ? slices(choice.ids) : null;
  let after = null;
  for (let n = 0; n < most && !signal.aborted; n++) {
    // A lot that has been sent is not aborted: what it did would not be known.
    const answer = await send(parts ? { ids: parts[n] } : { filter: choice.filter, limit, after });
    sum.done += answer.done.length;
    if (most < Infinity) sum.ids.push(...answer.done);
    answer.refused.forEach((one) => refuse(sum, one));
    after = answer.next;
    sum.more = parts ? n + 1 < parts.length : after !== null;
    told({ ...sum });
    if (!sum.more) break;
  }
  return sum;
}

/** What lots() answers where none is meant. */
export const nothing = () => ({ done: 0, ids: [], refused: new Map(), left: 0, more: false });

function slices(ids) {
  return Array.from({ length: Math.ceil(ids.length / LOT) }, (_, n) => ids.slice(n * LOT, (n + 1) * LOT));
}

/** Those that were refused for the same reason are one: { words, count, id }. */
export function refuse(sum, { id, words }) {
  const group = sum.refused.get(words) ?? { words, count: 0, id };
  sum.refused.set(words, { ...group, count: group.count + 1 });
  sum.left += 1;
}

const sendJobs = (path, wish) => async (which) => {
  const { ids, refused, next } = await post(path, { ...wish, ...which });
  return { done: ids, refused: refused.map((one) => ({ id: one.id, words: whyJob(one) })), next };
};

const whyJob = ({ id, code, detail, state }) =>
  (code === "invalid_transition" && state ? `they are ${state}` : detail.replaceAll(id, "…"));

/** Jobs: `wish` as POST jobs/bulk takes it; with `dry_run` only how many would be changed. */
export const changeJobs = (choice, wish, told, signal) =>
  lots(sendJobs("jobs/bulk", wish), choice, told, signal, { most: wish.dry_run ? ENOUGH : Infinity });

/** Dead jobs, with some of their arguments changed; with `dry_run` only how many would be redriven. */
export const redriveJobs = (choice, wish, told, signal) =>
  lots(sendJobs("dead/redrive", wish), choice, told, signal,
    { most: wish.dry_run ? ENOUGH : Infinity, limit: wish.arguments ? EDITED : LOT });

/** An empty filter means all of them. */
const schedulesMeant = ({ ids, filter, ...rest }) =>
  (ids ? { names: ids } : Object.keys(filter).length ? { filter, ...rest } : { all: true, ...rest });

/** Schedules: `wish` as POST scheduler/bulk takes it. */
export function changeSchedules(choice, wish, told, signal) {
  const send = async (which) => {
    const { done, refused, next } = await post("scheduler/bulk", { ...wish, ...schedulesMeant(which) });
    const why = Object.entries(refused).map(([id, words]) => ({ id, words: words.replaceAll(id, "…") }));
    return { done, refused: why, next };
  };
  return lots(send, choice, told, signal, { most: wish.dry_run ? ENOUGH : Infinity });
}
