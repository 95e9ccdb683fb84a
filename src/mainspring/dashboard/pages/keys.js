import { html } from "../html.js";
import { Head } from "../parts/page.js";

export function Keys() {
  return html`<${Head} title="Keys" />`;
}
