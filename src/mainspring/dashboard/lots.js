// Something done to many jobs: the API does up to 1,000 a call, and says where to go on.
import { post } from "./api.js";

const LOT = 200;

/**
 * Calls `path` with `body` until all are done or `stopped()`, and `told` with what came of it so far:
 * { done, refused: [{id, code, detail}], over }.
 */
export async function inLots(path, body, { told = () => {}, stopped = () => false } = {}) {
  const sum = { done: 0, refused: [], over: false };
  let after;
  do {
    const answer = await post(path, { ...body, limit: LOT, after });
    sum.done += answer.done;
    sum.refused.push(...answer.refused);
    after = answer.next ?? undefined;
    sum.over = after === undefined;
    told({ ...sum });
  } while (!sum.over && !stopped());
  return sum;
}

/** Refusals by their reason, most first: [{detail, count, id}]. */
export function reasons(refused) {
  const found = new Map();
  for (const { code, detail, id } of refused) {
    const group = found.get(code) ?? found.set(code, { detail, count: 0, id }).get(code);
    group.count += 1;
  }
  return [...found.values()].sort((a, b) => b.count - a.count);
}
