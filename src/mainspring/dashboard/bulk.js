// The same to many jobs, in lots: how many it would be, then doing it, and why some were skipped.
import { post } from "./api.js";

const LOT = 1000;
const EDITED = 200; // jobs of a lot whose arguments are changed: each of them is written by itself
const ENOUGH = 50; // lots that are counted before the question; what is more is "more than"

/**
 * `choice`: { ids } or { filter } as POST jobs/bulk takes them. Calls `told({ done, refused, left, more })` after each
 * lot, and begins no other when `signal` says so.
 */
async function lots(path, choice, wish, told, signal, most = Infinity) {
  const sum = { done: 0, refused: new Map(), left: 0, more: false };
  const parts = choice.ids ? slices(choice.ids) : null;
  let after = null;
  for (let n = 0; n < most && !signal.aborted; n++) {
    // A lot that has been sent is not aborted: what it did would not be known.
    const limit = wish.arguments ? EDITED : LOT;
    const which = parts ? { ids: parts[n] } : { filter: choice.filter, limit, after };
    const answer = await post(path, { ...wish, ...which });
    sum.done += answer.done;
    answer.refused.forEach((one) => refuse(sum, one));
    after = answer.next;
    sum.more = parts ? n + 1 < parts.length : after !== null;
    told({ ...sum });
    if (!sum.more) break;
  }
  return sum;
}

function slices(ids) {
  return Array.from({ length: Math.ceil(ids.length / LOT) }, (_, n) => ids.slice(n * LOT, (n + 1) * LOT));
}

/** Those that were refused for the same reason are one: { words, count, id }. */
function refuse(sum, { id, code, detail, state }) {
  const words = code === "invalid_transition" && state ? `they are ${state}` : detail.replaceAll(id, "…");
  const group = sum.refused.get(words) ?? { words, count: 0, id };
  sum.refused.set(words, { ...group, count: group.count + 1 });
  sum.left += 1;
}

/** How many it would be. */
export const preview = (choice, action, told, signal) =>
  lots("jobs/bulk", choice, { action, dry_run: true, update: action === "update" ? {} : undefined }, told, signal,
    ENOUGH);

export const perform = (choice, wish, told, signal) => lots("jobs/bulk", choice, wish, told, signal);

/** Dead jobs, with some of their arguments changed; with `dry_run` only how many would be redriven. */
export const redrive = (choice, wish, told, signal) =>
  lots("dead/redrive", choice, wish, told, signal, wish.dry_run ? ENOUGH : Infinity);
