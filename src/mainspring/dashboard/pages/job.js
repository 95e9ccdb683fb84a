import { html } from "../html.js";
import { Head } from "../parts/page.js";

export function Job() {
  return html`<${Head} title="Job" />`;
}
