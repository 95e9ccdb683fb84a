// The dialog that enqueues a job: task, arguments, queue, priority and time.
import { get, post } from "../api.js";
import { Raw, stringify } from "../lossless_json.js";
import { html, useState } from "../html.js";
import { useData } from "../live.js";
import { go, jobLink } from "../route.js";
import { Dialog } from "./dialog.js";
import { Choice, Field } from "./form.js";
import { fault, JsonEditor } from "./json_editor.js";
import { toInstant, InstantField } from "./instant_field.js";
import { Loaded } from "./page.js";
import { toast } from "./toast.js";

export function EnqueueDialog({ onClose, task = "" }) {
  const tasks = useData((signal) => get("tasks", {}, signal), []);
  return html`<${Dialog} title="Enqueue a job" onClose=${onClose} wide>
    <${Loaded} data=${tasks}>${({ items }) => html`<${Form} tasks=${items} first=${task} onClose=${onClose} />`}<//>
  <//>`;
}

function Form({ tasks, first, onClose }) {
  const named = (name) => tasks.find((one) => one.name === name);
  // Set together with the task, not in an effect after it: text typed meanwhile would be lost.
  const chosen = (name, text) => {
    const task = named(name);
    return { task: name, text: task ? argumentsTemplate(task.arguments) : text };
  };
  const [values, set] = useState(() => ({ ...chosen(first, "{}"), when: "now" }));
  const [state, say] = useState({ busy: false, error: null });
  const task = named(values.task);
  const give = (name) => (value) => set((now) => ({ ...now, [name]: value }));
  const choose = (name) => set((now) => ({ ...now, ...chosen(name, now.text) }));
  const submit = async (event) => {
    event.preventDefault();
    say({ busy: true, error: null });
    try {
      const made = await post("jobs", bodyOf(values));
      toast(made.duplicate ? "A job with this key exists already." : `Enqueued ${values.task}.`);
      onClose();
      go(jobLink(made.id));
    } catch (error) {
      say({ busy: false, error });
    }
  };
  const ready = values.task && fault(values.text) === null;
  return html`<form onSubmit=${submit} id="enqueue">
      <${TaskField} tasks=${tasks} value=${values.task} onValue=${choose} />
      ${task?.doc && html`<p class="hint">${task.doc.split("\n\n")[0]}</p>`}
      <div class="enqueue-arguments">
        <${JsonEditor} key=${values.task} label="Arguments" text=${values.text} onText=${give("text")} rows=${7}
          hint=${fault(values.text)} />
        ${task && html`<${Schema} of=${task.arguments} />`}
      </div>
      <div class="grid fields">
        <${Field} label="Queue" value=${values.queue ?? ""} onValue=${give("queue")}
          placeholder=${task?.queue ?? "default"} />
        <${Field} label="Priority" type="number" value=${values.priority ?? ""} onValue=${give("priority")}
          placeholder=${task?.priority ?? 0} />
        <${When} values=${values} give=${give} />
      </div>
      <p class="error" role="alert">${state.error?.message}</p>
    </form>
    <footer><button type="button" onClick=${onClose}>Cancel</button>
      <button class="primary" form="enqueue" disabled=${state.busy || !ready}>
        ${state.busy ? "Enqueueing…" : "Enqueue"}</button></footer>`;
}

/** A server without tasks accepts any task name. */
function TaskField({ tasks, value, onValue }) {
  const options = [["", "Choose a task…"], ...tasks.map(({ name }) => [name, name])];
  if (tasks.length) {
    return html`<${Choice} label="Task" required value=${value} onValue=${onValue} options=${options} />`;
  }
  const hint = "This server has no tasks: it accepts any name, and does not check the arguments.";
  return html`<${Field} label="Task" required value=${value} onValue=${onValue} hint=${hint} />`;
}

const TIMES = [["now", "now"], ["delay", "after a delay"], ["at", "at a time"]];

function When({ values, give }) {
  return html`<${Choice} label="When" value=${values.when} onValue=${give("when")} options=${TIMES} />
    ${values.when === "delay" && html`<${Field} label="Seconds from now" type="number" min="0" step="any" required
      value=${values.delay ?? ""} onValue=${give("delay")} />`}
    ${values.when === "at"
      && html`<${InstantField} label="Run at" required text=${values.at ?? ""} onText=${give("at")} />`}`;
}

/** The parameters of a task by name, with their types. */
function Schema({ of: schema }) {
  const all = Object.entries(schema.properties ?? {});
  if (!all.length) return html`<p class="hint">This task takes no arguments.</p>`;
  return html`<div class="schema"><h3>Parameters</h3><dl>${all.map(([name, one]) => html`<div key=${name}>
    <dt><code>${name}</code></dt>
    <dd>${typeText(one, schema.$defs)}${" "}
      ${!schema.required?.includes(name) && html`<span class="muted">${optional(one)}</span>`}
      ${one.description && html`<p class="hint">${one.description}</p>`}</dd></div>`)}</dl></div>`;
}

const optional = (one) =>
  (one.default === undefined ? "optional" : `optional, default ${stringify(one.default)}`);
export const resolveRef = (schema, defs = {}) => (schema.$ref ? defs[schema.$ref.split("/").pop()] ?? {} : schema);

/** A JSON schema in a few words: "integer", "list of text", "a or b". */
function typeText(given, defs) {
  const schema = resolveRef(given, defs);
  const either = schema.anyOf ?? schema.oneOf;
  if (either) return either.map((one) => typeText(one, defs)).join(" or ");
  if (schema.enum) return schema.enum.map((one) => stringify(one)).join(" or ");
  if (schema.type === "array") return schema.items ? `list of ${typeText(schema.items, defs)}` : "list";
  if (schema.type === "object" && given.$ref) return given.$ref.split("/").pop();
  return schema.type === "string" ? schema.format ?? "text" : schema.type ?? "anything";
}

const MAX_DEPTH = 4;

/** The required arguments with a placeholder for each value. Not valid JSON, so that placeholders are never sent. */
export function argumentsTemplate(schema) {
  return skeleton(schema, schema.$defs, "", 0);
}

function skeleton(given, defs, indent, depth) {
  const schema = resolveRef(given, defs);
  const wanted = schema.required ?? [];
  if (depth && (schema.type !== "object" || !schema.properties || depth >= MAX_DEPTH)) {
    return `<${typeText(given, defs).replace(/[<>"]/g, "'")}>`;
  }
  if (!wanted.length) return "{}";
  const inner = `${indent}  `;
  const lines = wanted.map((name) =>
    `${inner}${stringify(name)}: ${skeleton(schema.properties[name] ?? {}, defs, inner, depth + 1)}`);
  return `{\n${lines.join(",\n")}\n${indent}}`;
}

function bodyOf({ task, text, queue, priority, when, delay, at }) {
  return {
    task, arguments: new Raw(text),
    ...(queue?.trim() && { queue: queue.trim() }), ...(priority && { priority: Number(priority) }),
    ...(when === "delay" && { delay: Number(delay) }), ...(when === "at" && { run_at: toInstant(at) }),
  };
}
