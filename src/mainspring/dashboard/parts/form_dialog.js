// A form in a dialog whose answer, if a text, is told when it closes.
import { html } from "../html.js";
import { FormDialog as Form, told } from "./form.js";

export function FormDialog({ run, onDone, disabled = false, ...rest }) {
  return html`<${Form} ...${rest} ready=${!disabled} run=${told(run, onDone)} />`;
}
