import { html } from "../html.js";
import { Head } from "../parts/page.js";

export function Workers() {
  return html`<${Head} title="Workers" />`;
}
