// A button that gives a signal its value, by a form of its type.
import { post, segment } from "../api.js";
import { html, useState } from "../html.js";
import { parse, Raw, stringify } from "../lossless_json.js";
import { useSession } from "../session.js";
import { argumentsTemplate, resolveRef } from "./enqueue.js";
import { Choice, Field, FormDialog, withToast } from "./form.js";
import { Icon } from "./icons.js";
import { fault, JsonEditor } from "./json_editor.js";

const INPUTS = { string: "text", integer: "number", number: "number", boolean: "" };

const isSimple = (schema) => schema.type in INPUTS || schema.enum;

/** [[name, schema, required], …] of an object of simple values, or one without a name; null for other types. */
function fieldsOf(schema) {
  const type = resolveRef(schema, schema.$defs);
  if (isSimple(type)) return [["", type, true]];
  const all = Object.entries(type.properties ?? {}).map(([name, one]) => [name, one, type.required?.includes(name)]);
  return all.length && all.every(([, one]) => isSimple(one)) ? all : null;
}

/** The JSON text of all fields together. */
function valueOf(fields, values) {
  const texts = fields.map((one) => [one[0], textOf(one, values[one[0]])]).filter(([, text]) => text !== undefined);
  if (fields[0][0] === "") return texts[0]?.[1] ?? "";
  return `{${texts.map(([name, text]) => `${stringify(name)}:${text}`).join()}}`;
}

/** The options of a field as JSON texts; null if it is written. */
const optionsOf = ({ type, enum: values }) =>
  (type === "boolean" ? [true, false] : values)?.map((one) => stringify(one));

/** The JSON text of a field; undefined if it is left out. */
function textOf([, schema, required], value) {
  if (optionsOf(schema)) return value || undefined;
  if (schema.type !== "string") return value?.trim() || undefined;
  return value || required ? stringify(value ?? "") : undefined;
}

export function GiveSignal({ id, step, changed }) {
  const { may } = useSession();
  const [asking, ask] = useState(false);
  if (step.status !== "waiting" || step.signal.given_at || !may("operator", "flows")) return null;
  return html`<button type="button" class="primary" onClick=${() => ask(true)}><${Icon} name="completed" />Give</button>
    ${asking && html`<${Form} at=${`flows/${segment(id)}/signals/${segment(step.name)}`} name=${step.name}
      schema=${step.signal.schema} changed=${changed} onClose=${() => ask(false)} />`}`;
}

function Form({ at, name, schema, changed, onClose }) {
  const fields = schema && fieldsOf(schema);
  const [text, write] = useState(() => (schema?.$ref ? argumentsTemplate(schema) : "null"));
  const [values, set] = useState({});
  const put = (key) => (given) => set((now) => ({ ...now, [key]: given }));
  const value = fields ? valueOf(fields, values) : text;
  const run = async () => {
    await post(at, { value: new Raw(value) });
    return `${name} is given.`;
  };
  return html`<${FormDialog} title=${`Give ${name}`} action="Give" onClose=${onClose} run=${withToast(run, changed)}
      ready=${fault(value, { any: true }) === null}>
    ${fields
      ? fields.map(([key, one, required]) => html`<${Input} key=${key} of=${one} label=${key || "Value"}
          required=${required} value=${values[key] ?? ""} onValue=${put(key)} />`)
      : html`<${JsonEditor} label="Value" text=${text} onText=${write} rows=${5} any />`}
    <p class="hint">The first value stands.</p>
  <//>`;
}

function Input({ of: schema, ...rest }) {
  const options = optionsOf(schema);
  const step = schema.type === "number" ? "any" : undefined;
  if (!options) return html`<${Field} type=${INPUTS[schema.type]} step=${step} ...${rest} />`;
  return html`<${Choice} options=${[["", "…"], ...options.map((one) => [one, WORDS[one] ?? String(parse(one))])]}
    ...${rest} />`;
}

const WORDS = { true: "yes", false: "no" };
