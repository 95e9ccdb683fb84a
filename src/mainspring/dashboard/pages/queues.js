import { html } from "../html.js";
import { Head } from "../parts/page.js";

export function Queues() {
  return html`<${Head} title="Queues" />`;
}
