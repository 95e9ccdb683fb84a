// Who enqueued a job by hand or over the API: the job says so, or the audit trail.
import { get } from "../api.js";
import { useData } from "../live.js";
import { useSession } from "../session.js";

const NEAR = 60_000; // milliseconds: an entry is written just before its job

/** A name; undefined: a program did, or it is not known. */
export function useEnqueuer({ id, created_at: at, enqueued_by: named }) {
  const sees = useSession().sees("audit") && !named;
  const near = (ms) => new Date(Date.parse(at) + ms).toISOString();
  const asked = { action: "jobs.enqueue", target: id, since: near(-NEAR), until: near(NEAR), limit: 1 };
  const load = async (signal) => (sees ? (await get("audit", asked, signal)).items[0]?.who : undefined);
  const found = useData(load, [id]).value;
  return named ?? found;
}
