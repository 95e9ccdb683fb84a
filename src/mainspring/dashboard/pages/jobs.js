import { html } from "../html.js";
import { Head } from "../parts/page.js";

export function Jobs() {
  return html`<${Head} title="Jobs" />`;
}
