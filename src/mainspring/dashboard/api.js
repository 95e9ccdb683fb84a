// The REST API, as the pages ask it.
import { parse, stringify } from "./exact.js";

/** The API said no; `message` is for people. */
export class Refusal extends Error {
  constructor(status, problem) {
    super(problem.detail || `the server answered ${status}`);
    this.status = status;
    this.code = problem.code || "";
    this.problem = problem;
  }
}

/** Nothing answered. */
export class Unreachable extends Error {
  constructor() {
    super("The server does not answer. Retrying until it does.");
  }
}

const signedOut = new Set();

/** Calls `told` whenever the API no longer knows who we are. */
export function onSignedOut(told) {
  signedOut.add(told);
}

const changes = new Set();

/** Calls `told` after each change that this page has made; returns a function that ends it. */
export function onChange(told) {
  changes.add(told);
  return () => changes.delete(told);
}

/** A POST that only asks. */
const reads = (path, body) => path === "cron/preview" || path === "session" || body?.dry_run === true;

/** The address of a path of the API, wherever this page is mounted; what is undefined, null or "" is left out. */
export function address(path, query = {}) {
  const url = new URL(`api/v1/${path}`, document.baseURI);
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "") url.searchParams.append(name, one);
    }
  }
  return url;
}

/** One path segment: names may have any character. */
export const segment = encodeURIComponent;

export async function ask(method, path, { query, body, headers = {}, signal } = {}) {
  let response, text;
  try {
    response = await fetch(address(path, query), {
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
    if (method !== "GET" && !reads(path, body)) changes.forEach((told) => told());
    return answer;
  }
  const refusal = new Refusal(response.status, problem(text));
  if (response.status === 401 && path !== "session") signedOut.forEach((told) => told(refusal));
  throw refusal;
}

function problem(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

export const get = (path, query, signal) => ask("GET", path, { query, signal });
export const post = (path, body, options) => ask("POST", path, { body, ...options });
/** With `etag`, only if it was not changed since it was read. */
export const patch = (path, body, etag) => ask("PATCH", path, { body, headers: etag ? { "If-Match": etag } : {} });
export const remove = (path) => ask("DELETE", path);
