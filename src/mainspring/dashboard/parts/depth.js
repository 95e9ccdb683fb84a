// How deep queues were, minute by minute; where no worker lived there is a gap.
import { get } from "../api.js";
import { figure } from "../format.js";

/** { at: seconds, sample }; a gap has null for a sample. */
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

/** The figures of one queue, or of all; a queue that a sample does not name held nothing. */
export function depthsOf(samples, name, queue = null) {
  return samples.map(({ sample }) => {
    if (!sample) return null;
    const one = queue === null ? sample.total : sample.queues[queue];
    return one ? figure(one[name]) : sample.more ? null : 0;
  });
}
