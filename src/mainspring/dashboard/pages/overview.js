import { html } from "../html.js";
import { Head } from "../parts/page.js";

export function Overview() {
  return html`<${Head} title="Overview" />`;
}
