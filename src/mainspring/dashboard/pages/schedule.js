// /schedules/{name}: one schedule: its rule, ticks, statistics and actions.
import { get, post, remove, segment } from "../api.js";
import { count, percent, plural } from "../format.js";
import { html, useState } from "../html.js";
import { useData } from "../live.js";
import { confirm } from "../parts/dialog.js";
import { Icon } from "../parts/icons.js";
import { Empty, Facts, Head, Loaded } from "../parts/page.js";
import { ComingTicks } from "../parts/rule_preview.js";
import { Backfill, Pause, Reschedule, Resume, Trigger } from "../parts/schedule_actions.js";
import { ScheduleForm } from "../parts/schedule_form.js";
import { ScheduleStats } from "../parts/schedule_stats.js";
import { NextTick, policies } from "../parts/schedule_words.js";
import { State } from "../parts/state.js";
import { Tiles } from "../parts/tiles.js";
import { TickHistory } from "../parts/tick_history.js";
import { reasonWords } from "../parts/ticks.js";
import { Time } from "../parts/time.js";
import { toast } from "../parts/toast.js";
import { JsonTree } from "../parts/json_tree.js";
import { go, jobLink, link } from "../route.js";
import { useSession } from "../session.js";

const DIALOGS = { trigger: Trigger, pause: Pause, resume: Resume, reschedule: Reschedule, backfill: Backfill };

export function Schedule({ id: name }) {
  const at = `schedules/${segment(name)}`;
  const data = useData((signal) => loadSchedule(at, signal), [name], { live: { schedule: [name] }, every: 15 });
  const session = useSession();
  const [open, show] = useState(null);
  const close = () => show(null);
  if (data.error?.status === 404) return html`<${Missing} name=${name} words=${data.error.message} />`;
  const row = data.value?.row;
  const operator = session.may("operator", "schedules");
  const Open = DIALOGS[open];
  const actions = row && operator && html`<${Actions} row=${row} show=${show} />`;
  return html`<nav class="crumbs" aria-label="Where this is"><a href="schedules">Schedules</a></nav>
    <${Head} title=${name} actions=${actions}>${row && html`<${State} of=${row.status} />`}<//>
    <${Loaded} data=${data}>${(value) => html`<${Body} ...${value} at=${at} version=${version(value.row)} />`}<//>
    ${Open && html`<${Open} row=${row} onClose=${close} onDone=${data.reload} />`}
    ${open === "edit" && html`<${ScheduleForm} row=${row} tasks=${[]} onClose=${close} onDone=${data.reload} />`}`;
}

/** Changes when a tick fires or a job of the schedule finishes. */
const version = (row) => `${row.ticks} ${row.last_finished_at} ${row.active.length}`;

async function loadSchedule(at, signal) {
  const [row, next, stats] = await Promise.all([
    get(at, {}, signal), get(`${at}/preview`, { count: 10 }, signal), get(`${at}/stats`, {}, signal),
  ]);
  return { row, next, stats };
}

function Missing({ name, words }) {
  return html`<${Head} title=${name} />
    <${Empty} title="No such schedule"><p>${words}</p><a href="schedules">All schedules</a><//>`;
}

function Actions({ row, show }) {
  const button = (name, icon, words, kind = "") => html`<button class=${kind} onClick=${() => show(name)}>
    <${Icon} name=${icon} /> ${words}</button>`;
  return html`${button("trigger", "play", "Run now", "primary")}
    ${row.status === "paused"
      ? button("resume", "retrying", "Resume")
      : row.status === "active" && button("pause", "pause", "Pause")}
    ${button("reschedule", "next", "Move next tick")}
    ${button("backfill", "calendar", "Backfill")}
    ${button("edit", "edit", "Edit")}
    <button onClick=${() => deleteSchedule(row)}><${Icon} name="trash" /> Delete</button>`;
}

function deleteSchedule(row) {
  const code = row.owner === "code" && html`<p>The code declares it, so the next worker that starts creates it
    again. Remove it from the code, or pause it instead.</p>`;
  return confirm({
    title: `Delete ${row.name}?`, action: "Delete", danger: true,
    words: html`<p>It creates no more jobs, and its history is deleted. Jobs that it has created stay.</p>${code}`,
    run: async () => {
      await remove(`schedules/${segment(row.name)}`);
      go("schedules");
      toast(`Deleted ${row.name}.`);
    },
  });
}

function Body({ row, next, stats, at, version }) {
  const { spec } = row;
  const stretched = row.stretch > 1 && `, currently every ${row.stretch} intervals, as runs return the same result`;
  return html`<div class="stack">
    <div><${Notices} row=${row} />
      <section class="card"><p class="meaning">${spec.meaning}${stretched}</p>
        <${Facts} of=${[
          ["Next tick", html`<${NextTick} row=${row} />`],
          ["Last run", row.last_job_id ? lastRun(row) : "never"],
          ["Active jobs", row.active.length ? activeJobs(row) : "none"],
          ["Task", html`<a href=${link("jobs", { task: spec.task })}>${spec.task}</a>`],
          ["Owner", row.owner === "code" ? "code" : "users"],
          ["Created", html`<${Time} at=${row.created_at} />`], ["Changed", html`<${Time} at=${row.updated_at} />`],
        ]} /></section></div>
    <${Stats} stats=${stats} name=${row.name} />
    <${ScheduleStats} name=${row.name} version=${version} />
    <div class="schedule-columns">
      <section class="card"><h2>Next ticks${row.status === "paused" && html` <span
        class="muted">if it is resumed</span>`}</h2>
        <${ComingTicks} ticks=${next} tz=${spec.trigger.tz} /><${ClockChanges} at=${at} row=${row} /></section>
      <div class="stack">
        <section class="card"><h2>Policies</h2><dl class="schedule-policies">
          ${policies(spec).map(([name, words]) => html`<div key=${name}><dt>${name}</dt><dd>${words}</dd></div>`)}
        </dl></section>
        <section class="card"><h2>Arguments</h2>
          ${spec.computed
            ? html`<p class="muted">A function in the code makes them when a tick fires.</p>`
            : html`<${JsonTree} value=${spec.payload ?? {}} name="arguments" />`}
          ${Object.keys(spec.metadata).length > 0
            && html`<h3>Metadata</h3><${JsonTree} value=${spec.metadata} name="metadata" />`}</section>
      </div>
    </div>
    <${TickHistory} name=${row.name} version=${version} />
  </div>`;
}

function lastRun(row) {
  const when = row.last_run_at ?? row.last_finished_at;
  return html`<a href=${jobLink(row.last_job_id)}>${when ? html`<${Time} at=${when} />` : "in progress"}</a>${" "}
    ${row.last_outcome && html`<${State} of=${row.last_outcome} />`}`;
}

function activeJobs({ name, active, unlisted }) {
  const href = active.length === 1 ? jobLink(active[0]) : link("jobs", { schedule: name });
  return html`<a href=${href}>${plural(active.length + unlisted, "job")}</a>`;
}

function Notices({ row }) {
  const note = row.note ? html`: <b>${row.note}</b>` : ", without a note";
  return html`
    ${row.status === "paused" && html`<p class="notice"><${Icon} name="paused" />
      <span>Paused <${Time} at=${row.paused_at} />${note}</span></p>`}
    ${row.status === "ended" && html`<p class="notice"><${Icon} name="ended" />
      It has no more ticks.</p>`}
    ${row.failures > 1 && html`<p class="notice"><${Icon} name="warning" />
      ${plural(row.failures, "run")} in a row failed.</p>`}
    ${row.warnings.map((words) => html`<p key=${words} class="notice"><${Icon} name="warning" />${words}</p>`)}
    ${row.owner === "code" && html`<p class="muted">Declared in code. Changes made here survive a deploy until
      the declaration in the code changes; a pause survives every deploy.</p>`}`;
}

/** Totals of all ticks and their jobs. ScheduleStats shows runs within a window. */
function Stats({ stats, name }) {
  const reasons = Object.entries(stats.reasons);
  const figure = (value, more, href) => html`${href && stats.fired ? html`<a href=${href}>${value}</a>` : value}
    ${more && html` <small>${more}</small>`}`;
  const success = stats.success === null ? null : Number(stats.success);
  const streak = stats.failures ? `${count(stats.failures)} in a row` : null;
  const dead = stats.failed ? link("jobs", { schedule: name, state: "dead" }) : null;
  return html`<section class="schedule-figures" aria-label="Figures"><h2>Since it was created</h2>
    <${Tiles} of=${[
      ["Ticks fired", figure(count(stats.fired), null, link("jobs", { schedule: name }))],
      ["Jobs succeeded", figure(percent(success), success !== null && `${count(stats.completed)} completed`)],
      ["Jobs failed", figure(count(stats.failed), streak, dead)],
      ["Ticks skipped", figure(count(stats.skipped), reasonsText(reasons, SKIPS))],
      ["Ticks missed", figure(count(stats.missed), reasonsText(reasons, MISSES))],
    ]} />
  </section>`;
}

const MISSES = (reason) => ["catch_up", "too_old"].includes(reason);
const SKIPS = (reason) => !MISSES(reason);
/** The reasons in words, with their numbers if there are several. */
function reasonsText(reasons, of) {
  const selected = reasons.filter(([reason]) => of(reason));
  if (selected.length === 1) return reasonWords(selected[0][0]);
  return selected.map(([reason, n]) => `${count(n)}: ${reasonWords(reason)}`).join("; ");
}

const YEAR = 366 * 86_400_000;

/** The effect of clock changes in the coming year; for days and weeks it is in the notes of ticks. */
function ClockChanges({ at, row }) {
  const { trigger } = row.spec;
  const data = useData(async (signal) => {
    if (trigger.kind === "cron") {
      return (await post("cron/preview", { trigger, name: row.name, count: 1 }, { signal })).clock_changes;
    }
    if (trigger.kind !== "calendar") return [];
    const ticks = await get(`${at}/preview`, { count: 1000 }, signal);
    return ticks.filter((tick) => tick.note && Date.parse(tick.at) < Date.now() + YEAR).map((tick) => tick.note);
  }, [at, row.updated_at]);
  if (trigger.kind === "every") {
    return html`<p class="muted">An interval counts elapsed time: clock changes do not affect it.</p>`;
  }
  if (!data.value) return null;
  if (!data.value.length) return html`<p class="muted">Clock changes do not affect it in the coming year.</p>`;
  return html`<h3 class="changes-head"><${Icon} name="warning" /> Clock changes in the coming year</h3>
    <ul class="changes">${data.value.map((note) => html`<li key=${note}>${note}</li>`)}</ul>`;
}
