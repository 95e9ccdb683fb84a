// The history of queue depths, one sample per minute, with gaps for times without a worker.
import { get } from "../api.js";
import { toNumber } from "../format.js";

/** Loads [{ at: seconds, sample }]; the sample of a gap is null. */
export async function loadDepth(query, signal) {
  const { step, items } = await get("depth", query, signal);
  const found = [];
  for (const sample of items) {
    const at = Date.parse(sample.at) / 1000;
    const before = found.at(-1)?.at;
    if (before !== undefined && at - before > 1.7 * step) found.push({ at: before + Number(step), sample: null });
    found.push({ at, sample });
  }
  return found;
}

/** One number of each sample, for one queue or for all. A queue that a sample does not name was empty. */
export function depthsOf(samples, name, queue = null) {
  return samples.map(({ sample }) => {
    if (!sample) return null;
    const one = queue === null ? sample.total : sample.queues[queue];
    return one ? toNumber(one[name]) : sample.more ? null : 0;
  });
}
