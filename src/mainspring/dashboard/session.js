// Who has signed in, and what they may.
import { ask, get, post } from "./api.js";
import { createContext, useContext } from "./html.js";

const RANK = { viewer: 0, operator: 1, admin: 2 };

/** The principal, with `may(role, scope)`. */
export const Session = createContext(null);
export const useSession = () => useContext(Session);

/** `scope` is a noun of the API: what a key with scopes may change, or see with `read`. */
export function session(principal) {
  const has = (scope, verb) =>
    principal.scopes.includes(`${scope}:${verb}`) || (verb === "read" && has(scope, "write"));
  const allows = (scope, verb) => !principal.scopes || !scope || has(scope, verb);
  return {
    ...principal,
    may: (role, scope) => RANK[principal.role] >= RANK[role] && allows(scope, "write"),
    sees: (scope, role = "viewer") => RANK[principal.role] >= RANK[role] && allows(scope, "read"),
  };
}

/** The current one; null if the viewer is not signed in. */
export async function current() {
  try {
    return session(await get("session"));
  } catch (error) {
    if (error.status === 401) return null;
    throw error;
  }
}

/** With an API key, or with the token that a first start printed. */
export const signIn = async (key) => session(await post("session", { key }));
export const signOut = () => ask("DELETE", "session");

/** The token in the address behind #, once: it is removed, so that it is not shared. */
export function tokenInAddress() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) history.replaceState(null, "", location.pathname + location.search);
  return token;
}
