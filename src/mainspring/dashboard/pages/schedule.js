import { html } from "../html.js";
import { Head } from "../parts/page.js";

export function Schedule() {
  return html`<${Head} title="Schedule" />`;
}
