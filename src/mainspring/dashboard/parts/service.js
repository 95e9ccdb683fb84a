// Who serves a queue: which workers, and with how many slots.

export const serves = (worker, queue) => worker.queues === null || worker.queues.includes(queue);

/** Slots that a worker has for this queue at most. */
export const slots = (worker, queue) => Math.min(worker.concurrency, worker.queue_limits[queue] ?? Infinity);

/** { all, taking, slots }: those that know the queue, those that take jobs now, and what they can run of it at once. */
export function service(workers, queue) {
  const all = workers.filter((worker) => serves(worker, queue));
  const taking = all.filter((worker) => worker.state === "open");
  return { all, taking, slots: taking.reduce((sum, worker) => sum + slots(worker, queue), 0) };
}

/** Why jobs of a queue stay where they are; null: nothing stands in their way here. */
export function hindrance({ all, taking }) {
  if (!all.length) return "No worker serves it";
  return taking.length ? null : "Its workers are drained";
}
