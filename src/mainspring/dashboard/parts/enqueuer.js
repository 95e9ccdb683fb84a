// The person or key that enqueued a job: from the job, or from the audit trail.
import { get } from "../api.js";
import { useData } from "../live.js";
import { useSession } from "../session.js";

const NEAR_MS = 60_000; // an audit entry is written just before its job

/** The name of the enqueuer. undefined if a program enqueued the job, or it is unknown. */
export function useEnqueuer({ id, created_at: at, enqueued_by: named }) {
  const sees = useSession().sees("audit") && !named;
  const near = (ms) => new Date(Date.parse(at) + ms).toISOString();
  const asked = { action: "jobs.enqueue", target: id, since: near(-NEAR_MS), until: near(NEAR_MS), limit: 1 };
  const load = async (signal) => (sees ? (await get("audit", asked, signal)).items[0]?.who : undefined);
  const found = useData(load, [id]).value;
  return named ?? found;
}
