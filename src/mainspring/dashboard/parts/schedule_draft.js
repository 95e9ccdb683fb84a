// The policies of a schedule: the texts of their form fields, and their values in a request body.
import { Raw, stringify } from "../lossless_json.js";
import { toInstant, toFieldText } from "./instant_field.js";
import { CATCH_UP, OVERLAP } from "./schedule_words.js";

const choices = (words) => Object.entries(words).map(([value, text]) => [value, `${value}: ${text}`]);
const list = (text) => text.split(/[,;\n]+/).map((one) => one.trim()).filter(Boolean);

/** name, label, kind of field; `blank` is the value of an empty field (undefined if it cannot be empty). */
export const POLICIES = [
  ["Runs", [
    { name: "overlap", label: "Overlap", as: "choice", options: choices(OVERLAP) },
    { name: "catch_up", label: "Catch-up", as: "choice", options: choices(CATCH_UP) },
    { name: "catch_up_window", label: "Catch-up window, seconds", as: "number", blank: 86_400 },
    { name: "grace", label: "Grace, seconds", hint: "a tick that is less late is on time", as: "number", blank: 60 },
    { name: "pause_after_failures", label: "Pause after failures in a row", as: "number", blank: null },
    { name: "depends_on", label: "Depends on schedules", as: "list", hint: "names, separated by commas" },
    { name: "max_runs", label: "Maximum runs", as: "number", blank: null },
    { name: "run_on_start", label: "Run once when it is created", as: "switch", once: true },
  ]],
  ["Time", [
    { name: "jitter", label: "Jitter, seconds", as: "number", blank: 0,
      hint: "fires later by a fixed offset of its own, below this" },
    { name: "opens", label: "Window opens", as: "text", hint: "08:00; empty: no window" },
    { name: "closes", label: "Window closes", as: "text", hint: "18:00; 06:00 if across midnight" },
    { name: "days", label: "Window's days", as: "text", hint: "mon-fri; empty: all" },
    { name: "outside", label: "Ticks outside the window", as: "choice",
      options: [["skip", "are skipped"], ["move", "are moved to its opening"]] },
    { name: "exclude", label: "Excluded dates", as: "list", hint: "2030-12-25, separated by commas" },
    { name: "start_at", label: "Starts at", as: "moment", blank: null },
    { name: "end_at", label: "Ends at", as: "moment", blank: null },
    { name: "after", label: "Interval counts from", as: "choice",
      options: [["start", "tick to tick"], ["finish", "the end of the previous run"]] },
    { name: "adapt", label: "Adaptive interval up to, seconds", as: "number", blank: null,
      hint: "doubles while runs return the same result" },
    { name: "spread", label: "Spread: place the interval where the fewest ticks are", as: "switch" },
  ]],
  ["Jobs", [
    { name: "queue", label: "Queue", as: "text", hint: "empty: the task's queue" },
    { name: "priority", label: "Priority", as: "number" },
    { name: "timeout", label: "Timeout, seconds", as: "number" },
    { name: "max_retries", label: "Retries", as: "number" },
    { name: "expires", label: "Expire if not started after, seconds", as: "number", blank: null },
    { name: "tags", label: "Tags", as: "list", hint: "separated by commas" },
    { name: "metadata", label: "Metadata", as: "json" },
  ]],
];
const ALL_FIELDS = POLICIES.flatMap(([, fields]) => fields);
const WINDOW = ["opens", "closes", "days", "outside"];

const NEW_SPEC = { overlap: "skip", catch_up: "latest", after: "start", window: null, metadata: {} };
const TO_TEXT = {
  list: (value) => (value ?? []).join(", "), moment: toFieldText, switch: Boolean,
  json: (value) => stringify(value ?? {}, "  "),
};

/** The texts of the fields for a schedule, or for a new one. */
export function policyDraft(spec = NEW_SPEC) {
  const { opens, closes, days, outside } = spec.window ?? {};
  const values = { ...spec, opens, closes, days: [days ?? []].flat().join(","), outside: outside ?? "skip" };
  const textOf = ({ name, as }) => TO_TEXT[as]?.(values[name]) ?? String(values[name] ?? "");
  return Object.fromEntries(ALL_FIELDS.map((field) => [field.name, textOf(field)]));
}

/** The changed policies. Others are not sent, so that changes made by others meanwhile stay. */
export function changedPolicies(draft, before) {
  const changed = ALL_FIELDS.filter(({ name }) => draft[name] !== before[name]);
  const values = Object.fromEntries(changed
    .filter(({ name }) => !WINDOW.includes(name))
    .map((field) => [field.name, valueOf(field, draft[field.name])]));
  if (changed.some(({ name }) => WINDOW.includes(name))) values.window = windowOf(draft);
  return values;
}

function valueOf({ as, blank, name }, text) {
  if (as === "switch" || as === "choice") return text;
  if (as === "list") return list(text);
  if (as === "json") return new Raw(text);
  if (!text.trim()) return name === "timeout" ? null : blank;
  return as === "moment" ? toInstant(text) : as === "number" ? Number(text) : text.trim();
}

function windowOf({ opens, closes, days, outside }) {
  if (!opens.trim() && !closes.trim()) return null;
  const named = list(days).map((day) => (/^\d$/.test(day) ? Number(day) : day));
  return { opens: opens.trim(), closes: closes.trim(), outside, days: named.length > 1 ? named : named[0] ?? null };
}

/** The name of the field that an API error is about. null if unknown. */
export function fieldOf({ code, message }) {
  if (code === "schedule_exists" || /schedule name/.test(message)) return "name";
  const path = /at `\$\.(\w+)/.exec(message)?.[1] ?? /^option (\w+) of/.exec(message)?.[1];
  if (path === "window") return "opens";
  if (path) return path;
  if (code === "bad_payload" || /argument/.test(message)) return "kwargs";
  return /task/.test(message) ? "task" : null;
}
