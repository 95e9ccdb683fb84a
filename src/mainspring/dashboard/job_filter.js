// The filter of a list of jobs: in the page's URL, in search terms, and in the body of a bulk action.
import { get } from "./api.js";
import { local } from "./format.js";

/** Name in the URL and for GET jobs: name in a body's filter. */
const LISTS = {
  state: "states", task: "tasks", queue: "queues", tag: "tags", schedule: "schedules", worker: "workers",
  error: "errors",
};
const SINGLE = ["outcome", "key_prefix", "created_after", "created_before"];
export const NAMES = [...Object.keys(LISTS), ...SINGLE];
const WORDS = { outcome: "outcome", key_prefix: "key", created_after: "from", created_before: "until" };
/** The words before the colon of a search term. */
export const SEARCH_WORDS = [...Object.keys(LISTS), ...Object.values(WORDS)];
const MAX_VALUES = 100; // of one filter, by the API

/** The filter in a URL's query: { state: ["dead"], key_prefix: "a", … }. */
export function filterOf(query) {
  const found = {};
  for (const name of Object.keys(LISTS)) if (query.getAll(name).length) found[name] = query.getAll(name);
  for (const name of SINGLE) if (query.get(name)) found[name] = query.get(name);
  return found;
}

export const isEmpty = (filter) => !Object.keys(filter).length;

/** Both filters merged. Lists are joined; a single value replaces the previous one. */
export function mergeFilters(filter, more) {
  const both = { ...filter };
  for (const [name, value] of Object.entries(more)) {
    both[name] = Array.isArray(value) ? [...new Set([...(filter[name] ?? []), ...value])].slice(0, MAX_VALUES) : value;
  }
  return both;
}

/** The filter in the body of POST jobs/bulk. */
export function bodyOf(filter) {
  return Object.fromEntries(Object.entries(filter).map(([name, value]) => [LISTS[name] ?? name, value]));
}

/** The removable parts of a filter: [{ name, word, value, rest }]; `rest` is the filter without the part. */
export function partsOf(filter) {
  return Object.entries(filter).filter(([name]) => name !== "state").flatMap(([name, value]) => {
    const { [name]: gone, ...others } = filter;
    if (!Array.isArray(value)) return [{ name, word: WORDS[name], value: displayValue(name, value), rest: others }];
    return value.map((one) => {
      const left = value.filter((other) => other !== one);
      return { name, word: name, value: one, rest: left.length ? { ...others, [name]: left } : others };
    });
  });
}

const displayValue = (name, value) =>
  (name === "key_prefix" || name === "outcome" || Number.isNaN(Date.parse(value)) ? value : local(Date.parse(value)));

const PHRASES = {
  task: "of task", queue: "in queue", tag: "tagged", schedule: "of schedule", worker: "on worker",
  error: "that failed with",
};

/** The filter in words: "dead jobs of task a or b in queue c". For the question before a bulk action. */
export function describeFilter(filter) {
  const list = (name, and) => filter[name]?.join(and);
  const parts = [list("state", " or "), "jobs"];
  for (const [name, words] of Object.entries(PHRASES)) {
    if (filter[name]) parts.push(words, list(name, name === "tag" ? " and " : " or "));
  }
  if (filter.outcome) parts.push(`that ended ${filter.outcome}`);
  if (filter.key_prefix) parts.push(`whose key starts with ${filter.key_prefix}`);
  if (filter.created_after) parts.push(`created from ${displayValue("created_after", filter.created_after)}`);
  if (filter.created_before) parts.push(`created until ${displayValue("created_before", filter.created_before)}`);
  return parts.filter(Boolean).join(" ");
}

const TERM = /(?:([a-z_]+):)?(?:"((?:[^"\\]|\\.)*)"?|(\S+))/gi;

/** The terms of task:a queue:"b c" d as [{ name, value }]. A single word has the name null. */
export function termsOf(text) {
  const terms = [];
  for (const [whole, name, quoted, bare] of text.matchAll(TERM)) {
    const value = quoted === undefined ? bare : quoted.replace(/\\(.)/g, "$1");
    const known = name && SEARCH_WORDS.includes(name.toLowerCase());
    if (known) terms.push({ name: name.toLowerCase(), value });
    else terms.push({ name: null, value: quoted === undefined ? whole : value });
  }
  return terms.filter((term) => term.value);
}

export const quoted = (value) => (/^[^\s"]+$/.test(value) ? value : JSON.stringify(value));

/** The filter for search terms. Parts of names are matched against known ones; `tasks` are those of this server. */
export async function resolveTerms(terms, { tasks, states }) {
  let found = {};
  for (const { name, value } of terms) {
    if (name === null || name === "task") found = mergeFilters(found, { task: matchNames(value, tasks) });
    else if (name === "error") found = mergeFilters(found, { error: matchNames(value, await loadErrors()) });
    else if (name === "state") found = mergeFilters(found, { state: matchStates(value, states) });
    else if (name === "from") found = mergeFilters(found, { created_after: parseInstant(value) });
    else if (name === "until") found = mergeFilters(found, { created_before: parseInstant(value) });
    else if (name === "outcome") found = mergeFilters(found, { outcome: parseOutcome(value) });
    else found = mergeFilters(found, name === "key" ? { key_prefix: value } : { [name]: [value] });
  }
  return found;
}

/** The name that equals the text; else all names that contain it; else the text itself. */
function matchNames(text, names) {
  if (names.includes(text)) return [text];
  const part = names.filter((name) => name.toLowerCase().includes(text.toLowerCase()));
  return part.length ? part.slice(0, MAX_VALUES) : [text];
}

function matchStates(value, states) {
  const found = states.filter((one) => one.startsWith(value.toLowerCase()));
  if (!found.length) throw new Error(`Unknown state ${value}: use ${states.join(", ")}.`);
  return found;
}

function parseOutcome(value) {
  if (value.toLowerCase() !== "partial") throw new Error(`Only partial is an outcome to look for: use state:${value}.`);
  return "partial";
}

function parseInstant(value) {
  const at = Date.parse(value);
  if (Number.isNaN(at)) throw new Error(`${value} is not a time: write 2030-01-31, or "2030-01-31 09:30".`);
  return new Date(/^\d{4}-\d\d-\d\d$/.test(value) ? `${value}T00:00` : value).toISOString();
}

/** The errors of dead and retrying jobs. */
export async function loadErrors() {
  const [dead, retrying] = await Promise.all([get("dead"), get("jobs", { state: "retrying", limit: 200 })]);
  return [...new Set([...dead.items, ...retrying.items].map((one) => one.error).filter(Boolean))];
}

const ID = /^[0-9a-f]{8}(-[0-9a-f]{0,4}){0,3}(-[0-9a-f]{0,12})?$/i;
const ZERO_ID = "00000000-0000-0000-0000-000000000000";

/** Ids of up to two jobs whose id equals or starts with the text. null if the text cannot be an id. */
export async function jobIdsStarting(text) {
  if (!ID.test(text)) return null;
  const begin = text.toLowerCase();
  if (begin.length === ZERO_ID.length) return [(await get(`jobs/${encodeURIComponent(begin)}`)).id];
  // A list can start after any id, even if no job has it.
  const after = begin + ZERO_ID.slice(begin.length);
  const page = await get("jobs", { sort: "created", order: "asc", after, limit: 2 });
  return page.items.map((job) => job.id).filter((id) => id.startsWith(begin));
}
