// The failure of a run: type, message, and a collapsible stack trace.
import { html, useEffect, useRef } from "../html.js";
import { CopyButton } from "./copy_button.js";

/** `messageShown`: the first line of the message is already shown elsewhere. */
export function Failure({ of: failure, open = false, messageShown = false }) {
  const place = useRef();
  useEffect(() => void (place.current && (place.current.scrollTop = place.current.scrollHeight)), [failure.stack]);
  const whole = `${failure.type}: ${failure.message}`;
  const known = messageShown && !failure.message.includes("\n");
  if (known && !failure.stack) return null;
  return html`<div class="failure">
    ${!known && html`
      <p><b>${failure.type}</b>${failure.message && html`: <span>${failure.message}</span>`}</p>`}
    ${failure.stack
      ? html`<details open=${open}><summary>Stack trace</summary>
          <div class="stack-trace">
            <pre ref=${place} class="code" tabindex="0" role="group"
              aria-label="Stack trace">${lines(failure.stack)}</pre>
            <${CopyButton} text=${failure.stack} name="the stack trace" /></div></details>`
      : html`<${CopyButton} text=${whole} name="the error" words="Copy" />`}
  </div>`;
}

/** The lines of a stack trace. The last file and the last line are highlighted. */
function lines(stack) {
  const all = stack.replace(/\n$/, "").split("\n");
  const place = all.findLastIndex((line) => /^\s*File "/.test(line));
  const here = (n) => (n === place || n === all.length - 1 ? "here" : "");
  return all.map((line, n) => html`<span key=${n} class=${here(n)}>${line}${"\n"}</span>`);
}
