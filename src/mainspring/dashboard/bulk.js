// The same to many jobs, in lots: how many it would be, then doing it, and why some were left alone.
import { post } from "./api.js";

const LOT = 1000;
const ENOUGH = 50; // lots that are counted before the question; what is more is "more than"

/**
 * `choice`: { ids } or { filter } as POST jobs/bulk takes them. Calls `told({ done, refused, left, more })` after each
 * lot, and begins no other when `signal` says so.
 */
async function lots(choice, wish, told, signal, most = Infinity) {
  const sum = { done: 0, refused: new Map(), left: 0, more: false };
  const parts = choice.ids ? slices(choice.ids) : null;
  let after = null;
  for (let n = 0; n < most && !signal.aborted; n++) {
    // A lot that has been sent is not taken back: what it did would not be told.
    const which = parts ? { ids: parts[n] } : { filter: choice.filter, limit: LOT, after };
    const answer = await post("jobs/bulk", { ...wish, ...which });
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
  lots(choice, { action, dry_run: true, update: action === "update" ? {} : undefined }, told, signal, ENOUGH);

export const perform = (choice, wish, told, signal) => lots(choice, wish, told, signal);
