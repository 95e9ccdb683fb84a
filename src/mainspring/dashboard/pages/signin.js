// The sign-in form, with an API key or the token of a first run.
import { html, useState } from "../html.js";
import { Logo } from "../parts/logo.js";
import { signIn } from "../session.js";

/** `why` is the server's message when the session ended. */
export function SignIn({ onDone, why }) {
  const [key, set] = useState("");
  const [state, say] = useState({ busy: false, error: null });
  const submit = async (event) => {
    event.preventDefault();
    say({ busy: true, error: null });
    try {
      onDone(await signIn(key.trim()));
    } catch (error) {
      say({ busy: false, error });
    }
  };
  const words = state.error?.message ?? why;
  return html`<main class="signin"><form class="card" onSubmit=${submit}>
    <h1><${Logo} size=${34} /> Mainspring</h1>
    <p class="muted">Sign in to your job scheduler.</p>
    <div class="field"><label for="key">API key, or the token that the first start printed</label>
      <input id="key" type="password" autocomplete="current-password" required autofocus spellcheck=${false}
        value=${key} aria-describedby="sign-in-error" onInput=${(event) => set(event.target.value)} /></div>
    <p id="sign-in-error" class="fault" role="alert">${words}</p>
    <button class="primary" disabled=${state.busy || !key.trim()}>${state.busy ? "Signing in…" : "Sign in"}</button>
    <p class="muted">No key yet? On a first start the server's log has a link that signs you in. Or create a key where
      the store can be reached:</p>
    <pre class="code" tabindex="0">mainspring keys create NAME --role operator --app MODULE:APP</pre>
  </form></main>`;
}
