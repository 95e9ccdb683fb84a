import { html } from "../html.js";
import { Head } from "../parts/page.js";

export function Worker() {
  return html`<${Head} title="Worker" />`;
}
