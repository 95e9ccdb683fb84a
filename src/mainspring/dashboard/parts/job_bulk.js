// The bulk actions on jobs, for the bar and the dialog of bulk.js.
import { changeJobs, redriveJobs } from "../bulk.js";
import { parse, stringify } from "../lossless_json.js";
import { html } from "../html.js";
import { jobLink } from "../route.js";
import { Field } from "./form.js";
import { fault, JsonEditor } from "./json_editor.js";
import { toInstant, InstantField } from "./instant_field.js";

/** A bulk action of the API with its texts. `more(values)` returns further fields of the request. */
function change(action, words, more = () => ({})) {
  const empty = action === "update" ? { update: {} } : {};
  return {
    ...words,
    preview: (choice, onProgress, signal) =>
      changeJobs(choice, { action, ...empty, dry_run: true }, onProgress, signal),
    perform: (choice, values, onProgress, signal) =>
      changeJobs(choice, { action, ...more(values) }, onProgress, signal),
  };
}

const ACTIONS = {
  retry: change("retry", {
    verb: "Retry", icon: "retrying", done: "queued again", follows: "They are queued again, with all their retries.",
  }),
  cancel: change("cancel", {
    verb: "Cancel", icon: "cancelled", done: "cancelled", danger: true, Fields: Reason,
    follows: "Waiting jobs never run; running jobs are interrupted by their workers.",
  }, ({ reason }) => (reason ? { reason } : {})),
  pause: change("pause", {
    verb: "Pause", icon: "pause", done: "paused", follows: "They do not run until they are resumed.",
  }),
  resume: change("resume", { verb: "Resume", icon: "play", done: "resumed", follows: "They can run again." }),
  update: change("update", {
    verb: "Edit…", icon: "edit", done: "changed", follows: "Empty fields stay as they are.", Fields: Edit,
    isReady: (values) => Object.keys(editOf(values)).length > 0,
  }, (values) => ({ update: editOf(values) })),
  redrive: change("retry", {
    verb: "Redrive", icon: "retrying", done: "redriven",
    follows: "They are queued again, due at once, with all their retries.",
  }),
  redrive_edited: {
    verb: "Redrive", icon: "edit", done: "redriven", Fields: Arguments,
    follows: "They are queued again with these arguments on top of their own, with all retries.",
    isReady: ({ arguments: text = "" }) => fault(text) === null && Object.keys(parse(text)).length > 0,
    preview: (choice, onProgress, signal) => redriveJobs(choice, { dry_run: true }, onProgress, signal),
    perform: (choice, values, onProgress, signal) =>
      redriveJobs(choice, { arguments: parse(values.arguments) }, onProgress, signal),
  },
  delete: change("delete", {
    verb: "Delete", icon: "trash", done: "deleted", danger: true,
    follows: "The jobs, their history and their logs are deleted. This cannot be undone.",
  }),
};

export const JOBS = {
  noun: "job", link: jobLink, actions: ACTIONS, none: "None of these jobs is in a state that allows this.",
  offered: ["retry", "cancel", "pause", "resume", "update", "delete"],
};

function Reason({ values, give }) {
  return html`<${Field} label="Reason" maxlength="1024" placeholder="cancelled by an operator"
    value=${values.reason ?? ""} onValue=${(reason) => give({ ...values, reason })} />`;
}

function Edit({ values, give }) {
  const set = (name) => (value) => give({ ...values, [name]: value });
  return html`<${Field} label="Queue" placeholder="as it is" value=${values.queue ?? ""} onValue=${set("queue")} />
    <${Field} label="Priority" type="number" placeholder="as it is"
      value=${values.priority ?? ""} onValue=${set("priority")} />
    <${InstantField} label="Run at" text=${values.run_at ?? ""} onText=${set("run_at")} hint="as it is" />`;
}

/** The new values in a request body. */
function editOf({ queue, priority, run_at: at }) {
  return {
    ...(queue?.trim() && { queue: queue.trim() }),
    ...(priority && { priority: Number(priority) }),
    ...(toInstant(at) && { run_at: toInstant(at) }),
  };
}

/** The field is empty at first: the arguments of one job must not be sent to all by a click. */
function Arguments({ values, give, example }) {
  const names = Object.keys(example ?? {});
  return html`<${JsonEditor} label="Arguments to change" text=${values.arguments ?? ""} rows=${5}
      placeholder=${example && `For example\n${stringify(example, "  ")}`}
      hint=${names.length > 0 && `Arguments: ${names.join(", ")}.`}
      onText=${(text) => give({ ...values, arguments: text })} />
    <p class="hint">Arguments that are not named here stay as they are. Each job's task checks them; jobs that do not
      fit are skipped.</p>`;
}
