// What a run failed with: type, message, and the stack, which folds. It is a task's own text, whatever it says.
import { html, useEffect, useRef } from "../html.js";
import { Copy } from "./copy.js";

/** `told`: what it said in its first line is known already. */
export function Failure({ of: failure, open = false, told = false }) {
  const place = useRef();
  useEffect(() => void (place.current && (place.current.scrollTop = place.current.scrollHeight)), [failure.stack]);
  const whole = `${failure.type}: ${failure.message}`;
  return html`<div class="failure">
    ${!(told && failure.stack && !failure.message.includes("\n")) && html`
      <p><b>${failure.type}</b>${failure.message && html`: <span>${failure.message}</span>`}</p>`}
    ${failure.stack
      ? html`<details open=${open}><summary>Stack trace</summary>
          <div class="stack-trace">
            <pre ref=${place} class="code" tabindex="0" role="group"
              aria-label="Stack trace">${lines(failure.stack)}</pre>
            <${Copy} text=${failure.stack} name="the stack trace" /></div></details>`
      : html`<${Copy} text=${whole} name="the error" words="Copy" />`}
  </div>`;
}

/** Where it happened stands out from what led there: the last file, and the last line. */
function lines(stack) {
  const all = stack.replace(/\n$/, "").split("\n");
  const place = all.findLastIndex((line) => /^\s*File "/.test(line));
  const here = (n) => (n === place || n === all.length - 1 ? "here" : "");
  return all.map((line, n) => html`<span key=${n} class=${here(n)}>${line}${"\n"}</span>`);
}
