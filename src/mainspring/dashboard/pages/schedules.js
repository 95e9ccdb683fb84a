import { html } from "../html.js";
import { Head } from "../parts/page.js";

export function Schedules() {
  return html`<${Head} title="Schedules" />`;
}
