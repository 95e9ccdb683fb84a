// What the runs of a job have written. It follows the end until the viewer scrolls up.
import { get, segment } from "../api.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../html.js";
import { stringify } from "../lossless_json.js";
import { CopyButton } from "./copy_button.js";

const PAGE_CHUNKS = 1000; // of one request

/**
 * The output of the last run, with what it has resumed; nothing if there is none. The page calls `eventHandler.current`
 * when there is more; `version` changes with the job.
 */
export function Output({ id, eventHandler, version, following }) {
  const known = useRef({ n: 0, run: 0, text: "" }), wanted = useRef(0), busy = useRef(null);
  const place = useRef(null), atEnd = useRef(true);
  const [{ run, text, n, error }, set] = useState(known.current);
  const catchUp = () => (busy.current ??= fetchNew(id, known, wanted)
    .then(() => set(known.current), (failed) => set({ ...known.current, error: failed }))
    .finally(() => (busy.current = null)));
  eventHandler.current = (last) => {
    wanted.current = last;
    if (last > known.current.n) catchUp();
  };
  useEffect(() => void catchUp(), [version]);
  useLayoutEffect(() => {
    if (atEnd.current && place.current) place.current.scrollTop = place.current.scrollHeight;
  });
  const moved = ({ target }) =>
    (atEnd.current = target.scrollHeight - target.scrollTop - target.clientHeight < 24);
  if (!n && !error) return null;
  return html`<section class="card log" aria-label="Output">
    <div class="row"><h2>Output</h2>
      <span class="muted">run ${run}${following && " · following"}</span>
      <${CopyButton} text=${() => text} name="the output" /></div>
    ${error && html`<p class="error" role="alert">${error.message}</p>`}
    <pre class="log-lines output" role="region" aria-label="Output text" tabindex="0" ref=${place}
      onScroll=${moved}>${text}</pre>
  </section>`;
}

/** Adds the chunks beyond the last known one, also those that are announced meanwhile. */
async function fetchNew(id, known, wanted) {
  for (let more = true; more;) {
    const announced = wanted.current;
    const page = await get(`jobs/${segment(id)}/output`, { after: known.current.n, limit: PAGE_CHUNKS });
    known.current = page.items.reduce(added, known.current);
    more = page.items.length === PAGE_CHUNKS || wanted.current > announced;
  }
}

function added({ run, text }, chunk) {
  const line = (value) => `${text && !text.endsWith("\n") ? "\n" : ""}${value}\n`;
  if (chunk.run !== run && !chunk.resumed) text = "";
  if (chunk.full) text += line("… The output was full: what the run wrote after this is not kept.");
  else text += typeof chunk.value === "string" ? chunk.value : line(stringify(chunk.value));
  return { n: chunk.n, run: chunk.run, text };
}
