import { html } from "../html.js";
import { Head } from "../parts/page.js";

export function Dead() {
  return html`<${Head} title="Dead" />`;
}
