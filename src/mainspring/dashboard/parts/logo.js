// The logo: a spring.
import { html } from "../html.js";

export function Logo({ size = 26 }) {
  return html`<svg class="mark" width=${size} height=${size} viewBox="0 0 32 32" aria-hidden="true">
    <rect width="32" height="32" rx="8" />
    <path d="M16 16m-2.2 0a2.2 2.2 0 1 1 4.4 0a4.6 4.6 0 1 1-9.2 0a7 7 0 1 1 14 0a9.4 9.4 0 0 1-9.4 9.4" /></svg>`;
}
