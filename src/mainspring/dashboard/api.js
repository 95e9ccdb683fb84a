// Requests to the REST API.
import { parse, stringify } from "./lossless_json.js";

/** An error response of the API. `message` is for people. */
export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.detail || `the server answered ${status}`);
    this.status = status;
    this.code = problem.code || "";
    this.problem = problem;
  }
}

/** The server did not respond. */
export class Unreachable extends Error {
  constructor() {
    super("The server does not answer. Retrying until it does.");
  }
}

const signedOut = new Set();

/** Calls `listener` with the error when the session has ended. */
export function onSignedOut(listener) {
  signedOut.add(listener);
}

const changes = new Set();

/** Calls `listener` after each change that this page has made. Returns a function that removes the listener. */
export function onChange(listener) {
  changes.add(listener);
  return () => changes.delete(listener);
}

/** Whether a POST changes nothing. */
const isRead = (path, body) => path === "cron/preview" || path === "session" || body?.dry_run === true;

/** The URL of a path of the API, below the page's mount path. Parameters that are undefined, null or "" are omitted. */
export function apiUrl(path, query = {}) {
  const url = new URL(`api/v1/${path}`, document.baseURI);
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "") url.searchParams.append(name, one);
    }
  }
  return url;
}

/** Encodes one path segment: names may contain any character. */
export const segment = encodeURIComponent;

export async function request(method, path, { query, body, headers = {}, signal } = {}) {
  let response, text;
  try {
    response = await fetch(apiUrl(path, query), {
      method, signal, credentials: "same-origin",
      headers: body === undefined ? headers : { "Content-Type": "application/json", ...headers },
      body: body === undefined ? undefined : stringify(body),
    });
    text = await response.text();
  } catch (error) {
    throw error.name === "AbortError" ? error : new Unreachable();
  }
  if (response.ok) {
    const answer = text ? parse(text) : null;
    const etag = response.headers.get("ETag");
    if (etag && answer) Object.defineProperty(answer, "etag", { value: etag });
    if (method !== "GET" && !isRead(path, body)) changes.forEach((listener) => listener());
    return answer;
  }
  const error = new ApiError(response.status, problem(text));
  if (response.status === 401 && path !== "session") signedOut.forEach((listener) => listener(error));
  throw error;
}

function problem(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

export const get = (path, query, signal) => request("GET", path, { query, signal });
export const post = (path, body, options) => request("POST", path, { body, ...options });
/** With `etag`, fails if the resource was changed since it was read. */
export const patch = (path, body, etag) => request("PATCH", path, { body, headers: etag ? { "If-Match": etag } : {} });
export const remove = (path) => request("DELETE", path);
