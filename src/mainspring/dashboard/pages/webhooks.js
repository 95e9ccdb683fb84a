import { html } from "../html.js";
import { Head } from "../parts/page.js";

export function Webhooks() {
  return html`<${Head} title="Webhooks" />`;
}
