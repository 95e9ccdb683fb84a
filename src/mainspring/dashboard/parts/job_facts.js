// The properties of a job.
import { duration, plural } from "../format.js";
import { html } from "../html.js";
import { link, scheduleLink } from "../route.js";
import { CopyButton } from "./copy_button.js";
import { Facts } from "./page.js";
import { Time } from "./time.js";
import { workerLink } from "./worker.js";

/** `rules` are the defaults of its task, if the server has it: {max_retries, timeout, backoff}; `by` is the name of its
 * enqueuer. */
export function JobFacts({ job, rules, by }) {
  const when = (at) => (at ? html`<${Time} at=${at} exact />` : undefined);
  return html`<${Facts} of=${[
    ["Queue", html`<a href=${link("jobs", { queue: job.queue })}>${job.queue}</a>`],
    ["Priority", job.priority], ["Attempts", attempts(job, rules)],
    ["Crashes", job.crashes || undefined],
    ["Enqueued by", by ? html`<a href=${link("audit", { who: by })}>${by}</a>` : undefined],
    ["Created", when(job.created_at)], ["Due", when(job.run_at)],
    ["Started", when(job.started_at)], ["Finished", when(job.finished_at)], ["Expires", when(job.expires_at)],
    ["Worker", job.worker ? html`<a href=${workerLink(job.worker)}>${job.worker}</a>` : undefined],
    ["Timeout", timeout(job, rules)],
    ["Backoff", job.backoff || rules ? backoff(job.backoff ?? rules.backoff, rules) : undefined],
    ["Schedule", job.schedule ? schedule(job) : undefined],
    ["Tick", when(job.scheduled_at)],
    ["Tags", job.tags.length ? job.tags.map(tagged) : undefined],
    ["Unique key", job.unique_key ? html`<code>${job.unique_key}</code>` : undefined],
    ["Idempotency key", job.idempotency_key ? html`<code>${job.idempotency_key}</code>` : undefined],
    ["Cancel reason", job.cancel_reason || undefined],
    ["Trace", trace(job.metadata.traceparent)],
  ]} />`;
}

const schedule = (job) =>
  html`<a href=${scheduleLink(job.schedule)}>${job.schedule}</a>${job.beside && " (backfill)"}`;
const tagged = (tag) => html`<a key=${tag} class="tag" href=${link("jobs", { tag })}>${tag}</a> `;

function attempts(job, rules) {
  const retries = job.max_retries ?? rules?.max_retries;
  if (retries === null || retries === undefined) return `${job.attempt}`;
  const left = Math.max(0, retries + 1 - job.attempt);
  const more = left ? `${plural(left, "attempt")} left` : "the last";
  return html`${job.attempt} of ${retries + 1} <span class="muted">${job.finished_at ? "" : more}</span>`;
}

/** The timeout of a job, or of its task if the job has none. */
function timeout(job, rules) {
  const own = Object.hasOwn(job, "timeout");
  if (!own && (!rules || rules.stub)) return html`<span class="muted">the task's own</span>`;
  const seconds = own ? job.timeout : rules.timeout;
  return seconds === null ? "none" : duration(Number(seconds));
}

const DEFAULT = { initial: 1, multiplier: 2, max: 3600, jitter: 0.25, curve: "exponential" };

/** {initial: 5} -> "5 s, then 2 times as long each time, up to 1 h; up to 25 % less". */
function backoff(given, rules) {
  if (!given) return rules?.stub ? html`<span class="muted">the task's own</span>` : "a function of the task";
  const of = (name) => (given[name] === undefined ? DEFAULT[name] : given[name]);
  const [initial, multiplier, most, jitter] =
    ["initial", "multiplier", "max", "jitter"].map((name) => Number(of(name)));
  const less = jitter ? `; up to ${Math.round(jitter * 100)} % less` : "";
  if (of("curve") === "linear") {
    return `${duration(initial)}, and ${duration(initial)} longer each time, up to ${duration(most)}${less}`;
  }
  if (multiplier === 1) return `${duration(initial)} each time${less}`;
  return `${duration(initial)}, then ${multiplier} times as long each time, up to ${duration(most)}${less}`;
}

/** The trace id of the traceparent 00-<trace>-<span>-01. */
function trace(parent) {
  const id = typeof parent === "string" ? parent.split("-")[1] : undefined;
  return id ? html`<code>${id}</code><${CopyButton} text=${id} name="the trace's id" />` : undefined;
}
