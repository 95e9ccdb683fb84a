// The session: the signed-in principal and its permissions.
import { request, get, post } from "./api.js";
import { createContext, useContext } from "./html.js";

const RANK = { viewer: 0, operator: 1, admin: 2 };

/** The principal, with `may(role, scope)` and `sees(scope, role)`. */
export const Session = createContext(null);
export const useSession = () => useContext(Session);

/** Adds the permission checks to a principal: `may` for changes, `sees` for reads. `scope` is a noun of the API. */
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

/** The current session. null if the viewer is not signed in. */
export async function current() {
  try {
    return session(await get("session"));
  } catch (error) {
    if (error.status === 401) return null;
    throw error;
  }
}

/** Signs in with an API key, or with the token of a first run. */
export const signIn = async (key) => session(await post("session", { key }));
export const signOut = () => request("DELETE", "session");

/** The token after # in the URL. It is removed from the URL, so that it is not shared. */
export function tokenInAddress() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) history.replaceState(null, "", location.pathname + location.search);
  return token;
}
