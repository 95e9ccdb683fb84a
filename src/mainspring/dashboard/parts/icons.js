// Icons: 16 × 16, in the colour of the surrounding text.
import { html } from "../html.js";

const PATHS = {
  pending: "M8 2.5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 0 1 0-11z",
  scheduled: "M8 2.5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 0 1 0-11zM8 5v3.2l2.2 1.6",
  retrying: "M13 8a5 5 0 1 1-1.6-3.7M13 2.2v3h-3",
  running: "M5 3l8 5-8 5z",
  waiting: "M3.2 8h.1M8 8h.1M12.8 8h.1",
  paused: "M5.5 3.5v9M10.5 3.5v9",
  completed: "M3 8.5l3.3 3.5L13 4.5",
  dead: "M5.4 1.8h5.2l3.6 3.6v5.2l-3.6 3.6H5.4l-3.6-3.6V5.4zM6 6l4 4M10 6l-4 4",
  cancelled: "M8 2.5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 0 1 0-11zM4.2 4.2l7.6 7.6",
  expired: "M4 2h8M4 14h8M4.8 2c0 3.5 6.4 5.5 6.4 12M11.2 2c0 3.5-6.4 5.5-6.4 12",
  partial: "M8 2.5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 0 1 0-11zM8 2.5v11",
  failed: "M4 4l8 8M12 4l-8 8",
  timeout: "M8 3.5a5 5 0 1 1 0 10a5 5 0 0 1 0-10zM8 6v3M6.5 1.5h3",
  crashed: "M9 1.5L4 9h3.5L6.5 14.5L12 6.5H8.5z",
  skipped: "M4 3.5l5 4.5-5 4.5M12 3.5v9",
  not_run: "M8 2.5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 0 1 0-11zM5.2 8h5.6",
  missed: "M8 2l6 6-6 6-6-6zM8 5.5v3M8 10.6v.1",
  active: "M8 2.5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 0 1 0-11zM8 5v3.2l2.2 1.6",
  ended: "M4 4h8v8H4z",
  warning: "M8 2l6.5 11.5h-13zM8 6.5v3M8 11.6v.1",
  search: "M7 2.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 0 1 0-9zM10.3 10.3L14 14",
  more: "M8 3.2v.1M8 8v.1M8 12.8v.1",
  close: "M4 4l8 8M12 4l-8 8",
  down: "M4 6l4 4 4-4",
  next: "M6 3.5l4.5 4.5L6 12.5",
  back: "M10 3.5L5.5 8l4.5 4.5",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  plus: "M8 3v10M3 8h10",
  play: "M5 3l8 5-8 5z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  edit: "M3 13l.6-2.8L10.8 3l2.2 2.2-7.2 7.2z",
  trash: "M3 4.5h10M6 4.5v-2h4v2M4.5 4.5l.6 9h5.8l.6-9",
  sun: "M8 5.2a2.8 2.8 0 1 1 0 5.6a2.8 2.8 0 0 1 0-5.6z"
    + "M8 1.2v1.3M8 13.5v1.3M1.2 8h1.3M13.5 8h1.3M3.2 3.2l.9.9M11.9 11.9l.9.9M3.2 12.8l.9-.9M11.9 4.1l.9-.9",
  moon: "M13 9.5A5.5 5.5 0 1 1 6.5 3a4.5 4.5 0 0 0 6.5 6.5z",
  auto: "M8 2.5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 0 1 0-11zM8 2.5v11M8 5.5l2 0M8 8h4.5M8 10.5h4",
  flow: "M2.5 6h4v4h-4zM9.5 2h4v4h-4zM9.5 10h4v4h-4zM6.5 8H8V4h1.5M8 8v4h1.5",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  calendar: "M2.5 3.5h11v10h-11zM2.5 6.5h11M5.5 2v2.5M10.5 2v2.5",
};
PATHS.snoozed = PATHS.scheduled;
PATHS.released = PATHS.waiting;
PATHS.discarded = PATHS.dead;
PATHS.held = PATHS.paused;
const FILLED = new Set(["running", "play", "crashed"]);

/** An icon, hidden from screen readers: there is a text beside it, or a label on its button. */
export function Icon({ name, size = 16 }) {
  return html`<svg class=${`icon icon-${name}`} width=${size} height=${size} viewBox="0 0 16 16" aria-hidden="true">
    <path d=${PATHS[name] ?? PATHS.pending} fill=${FILLED.has(name) ? "currentColor" : "none"} />
  </svg>`;
}
