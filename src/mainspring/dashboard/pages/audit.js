import { html } from "../html.js";
import { Head } from "../parts/page.js";

export function Audit() {
  return html`<${Head} title="Audit" />`;
}
