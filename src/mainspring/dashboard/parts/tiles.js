// Tiles with the key numbers of a page: [["Pending", words], …].
import { html } from "../html.js";

export function Tiles({ of: tiles }) {
  return html`<dl class="tiles">${tiles.map(([name, words]) => html`
    <div class="card tile" key=${name}><dt>${name}</dt><dd>${words}</dd></div>`)}</dl>`;
}
