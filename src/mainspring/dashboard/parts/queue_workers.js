// The workers that serve a queue, and their slots.

export const servesQueue = (worker, queue) => worker.queues === null || worker.queues.includes(queue);

/** The maximum number of slots that a worker has for this queue. */
export const queueSlots = (worker, queue) => Math.min(worker.concurrency, worker.queue_limits[queue] ?? Infinity);

/** { all, taking, slots }: the workers that serve the queue, those that accept jobs now, and the slots of these. */
export function queueWorkers(workers, queue) {
  const all = workers.filter((worker) => servesQueue(worker, queue));
  const taking = all.filter((worker) => worker.state === "open");
  return { all, taking, slots: taking.reduce((sum, worker) => sum + queueSlots(worker, queue), 0) };
}

/** Why no worker takes jobs of a queue. null if one does. `of` is the result of queueWorkers(). */
export function blockedReason({ all, taking }) {
  if (!all.length) return "No worker serves it";
  return taking.length ? null : "Its workers are drained";
}
