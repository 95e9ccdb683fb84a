// The form fields of a schedule's trigger: a cron expression, an interval, days and weeks, or once.
import { zone } from "../format.js";
import { html, useId } from "../html.js";
import { Choice } from "./form.js";
import { toInstant, InstantField, toFieldText } from "./instant_field.js";

const KINDS = [["cron", "Cron"], ["every", "Interval"], ["calendar", "Days and weeks"], ["at", "Once"]];
const UNITS = { seconds: 1, minutes: 60, hours: 3600, days: 86_400, weeks: 604_800 };
const DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const EXAMPLES = [
  ["0 * * * *", "every hour"], ["0 9 * * *", "daily at 9"], ["0 9 * * mon-fri", "weekdays at 9"],
  ["0 3 1 * *", "monthly"], ["*/5 * * * *", "every 5 min"], ["H H(1-5) * * *", "nightly, spread"],
];
const ZONES = ["UTC", ...Intl.supportedValuesOf("timeZone").filter((name) => name !== "UTC")];
const list = (text) => text.split(/[\s,;]+/).filter(Boolean);

/** The texts of the fields for a trigger, or for a new one. */
export function ruleDraft(trigger = { kind: "cron", tz: zone }) {
  const seconds = Number(trigger.seconds ?? 0);
  const unit = seconds ? Object.keys(UNITS).findLast((name) => seconds % UNITS[name] === 0) ?? "seconds" : "minutes";
  return {
    kind: trigger.kind, tz: trigger.tz, expr: trigger.expr ?? "", day_match: trigger.day_match ?? "or",
    n: seconds ? String(seconds / UNITS[unit]) : "", unit,
    anchor: trigger.kind === "every" ? toFieldText(trigger.anchor) : "",
    step: String(trigger.days || trigger.weeks || 1), period: trigger.weeks ? "weeks" : "days",
    weekdays: [...(trigger.weekdays ?? [])], times: (trigger.times ?? []).join(", "),
    first: trigger.kind === "calendar" ? trigger.anchor ?? "" : "", when: (trigger.when ?? "").slice(0, 19),
    // An instant with an offset keeps it, unless another time is typed.
    original: trigger.when ?? "",
  };
}

/** The trigger in a request body. */
export function ruleOf(draft) {
  const { kind, tz } = draft;
  if (kind === "cron") return { kind, tz, expr: draft.expr, day_match: draft.day_match };
  if (kind === "every") {
    return { kind, tz, seconds: Number(draft.n) * UNITS[draft.unit], anchor: toInstant(draft.anchor) };
  }
  if (kind === "at") return { kind, tz, when: whenOf(draft) };
  const weekly = draft.period === "weeks";
  return {
    kind, tz, [draft.period]: Number(draft.step), weekdays: weekly ? [...draft.weekdays].sort() : [],
    times: list(draft.times), anchor: draft.first || null,
  };
}

/** The typed time with seconds: browsers omit them if they are 0, and the API requires them. */
function whenOf({ when, original }) {
  const full = when.length === 16 ? `${when}:00` : when;
  return original.slice(0, 19) === full ? original : full;
}

/** Whether the fields are complete enough for a preview. */
export function isComplete({ kind, expr, n, step, times, when }) {
  return { cron: expr.trim(), every: n, calendar: step && times.trim(), at: when }[kind] !== "";
}

/** `fault` is the API's error about the trigger. */
export function RuleFields({ draft, onChange, fault }) {
  const id = useId();
  const zoned = /time zone|timezone|zone '/i.test(fault ?? "");
  const Fields = { cron: CronFields, every: EveryFields, calendar: CalendarFields, at: AtFields }[draft.kind];
  return html`<fieldset class="rule"><legend>When</legend>
    <div class="row kinds" role="radiogroup" aria-label="Kind of rule">
      ${KINDS.map(([kind, words]) => html`<label key=${kind} class="kind">
        <input type="radio" name="kind" value=${kind} checked=${draft.kind === kind}
          onChange=${() => onChange({ kind })} /> ${words}</label>`)}</div>
    <${Fields} draft=${draft} onChange=${onChange} fault=${zoned ? null : fault} describedby=${`${id}-fault`} />
    <p id=${`${id}-fault`} class="fault rule-fault" role="alert">${fault}</p>
    ${draft.kind !== "every" && html`<div class="field"><label for=${`${id}-tz`}>Time zone</label>
      <input id=${`${id}-tz`} list="zones" value=${draft.tz} required
        aria-invalid=${zoned} aria-describedby=${`${id}-fault`}
        onInput=${(event) => onChange({ tz: event.target.value.trim() })} />
      <datalist id="zones">${ZONES.map((name) => html`<option key=${name} value=${name} />`)}</datalist></div>`}
  </fieldset>`;
}

function CronFields({ draft, onChange, fault, describedby }) {
  const id = useId();
  const both = setsBothDayFields(draft.expr);
  return html`<div class="field"><label for=${id}>Cron expression</label>
      <input id=${id} class="code" value=${draft.expr} required spellcheck=${false} autocomplete="off"
        placeholder="0 9 * * mon-fri"
        aria-invalid=${Boolean(fault)} aria-describedby=${describedby}
        onInput=${(event) => onChange({ expr: event.target.value })} />
      <p class="hint">minute, hour, day of month, month, day of week; six fields have seconds first</p></div>
    <p class="row examples">${EXAMPLES.map(([expr, words]) => html`<button key=${expr} type="button" title=${expr}
      onClick=${() => onChange({ expr })}>${words}</button>`)}</p>
    ${both && html`<${Choice} label="Both day fields are set: a date meets" value=${draft.day_match}
      options=${[["or", "one of them"], ["and", "both"]]} onValue=${(day_match) => onChange({ day_match })} />`}`;
}

function setsBothDayFields(expr) {
  const parts = expr.trim().split(/\s+/);
  const open = (part) => ["*", "?", "*/1"].includes(part);
  return parts.length >= 5 && !open(parts.at(-1)) && !open(parts.at(-3));
}

function EveryFields({ draft, onChange, fault, describedby }) {
  const id = useId();
  return html`<div class="row"><div class="field"><label for=${id}>Every</label>
      <input id=${id} type="number" min="0.001" step="any" required value=${draft.n} placeholder="5"
        aria-invalid=${Boolean(fault)} aria-describedby=${describedby}
        onInput=${(event) => onChange({ n: event.target.value })} /></div>
      <${Choice} label="Unit" value=${draft.unit} options=${Object.keys(UNITS).map((one) => [one, one])}
        onValue=${(unit) => onChange({ unit })} /></div>
    <${InstantField} label="Counted from" text=${draft.anchor} onText=${(anchor) => onChange({ anchor })}
      hint="empty: the time when it is created" />`;
}

function CalendarFields({ draft, onChange, fault, describedby }) {
  const id = useId();
  const { weekdays } = draft;
  const turned = (day) => (weekdays.includes(day) ? weekdays.filter((one) => one !== day) : [...weekdays, day]);
  return html`<div class="row"><div class="field"><label for=${id}>Every</label>
      <input id=${id} type="number" min="1" step="1" required value=${draft.step}
        onInput=${(event) => onChange({ step: event.target.value })} /></div>
      <${Choice} label="Unit" value=${draft.period} options=${[["days", "days"], ["weeks", "weeks"]]}
        onValue=${(period) => onChange({ period })} /></div>
    ${draft.period === "weeks" && html`<div class="row" role="group" aria-label="Days of the week">
      ${DAYS.map((name, day) => html`<label key=${name}><input type="checkbox" checked=${weekdays.includes(day)}
        onChange=${() => onChange({ weekdays: turned(day) })} /> ${name}</label>`)}</div>`}
    <div class="field"><label for=${`${id}-times`}>At these times of day</label>
      <input id=${`${id}-times`} required value=${draft.times} placeholder="09:00, 17:30"
        aria-invalid=${Boolean(fault)} aria-describedby=${describedby}
        onInput=${(event) => onChange({ times: event.target.value })} /></div>
    <div class="field"><label for=${`${id}-first`}>Counted from</label>
      <input id=${`${id}-first`} type="date" value=${draft.first}
        onInput=${(event) => onChange({ first: event.target.value })} />
      <p class="hint">empty: the day when it is created</p></div>`;
}

function AtFields({ draft, onChange, fault, describedby }) {
  const id = useId();
  return html`<div class="field"><label for=${id}>Date and time, in the time zone below</label>
    <input id=${id} type="datetime-local" step="1" required value=${draft.when}
      aria-invalid=${Boolean(fault)} aria-describedby=${describedby}
      onInput=${(event) => onChange({ when: event.target.value })} /></div>`;
}
