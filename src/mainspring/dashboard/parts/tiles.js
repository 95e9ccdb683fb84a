// Figures that one should see first, each with its name: [["Pending", words], …].
import { html } from "../html.js";

export function Tiles({ of: tiles }) {
  return html`<dl class="tiles">${tiles.map(([name, words]) => html`
    <div class="card tile" key=${name}><dt>${name}</dt><dd>${words}</dd></div>`)}</dl>`;
}
