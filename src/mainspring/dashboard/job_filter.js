// Which jobs a list shows: as it stands in the address, in the words of a search, and in the body of a bulk action.
import { get } from "./api.js";
import { local } from "./format.js";

/** name in the address and for GET jobs: its name in a body's filter. */
const LISTS = {
  state: "states", task: "tasks", queue: "queues", tag: "tags", schedule: "schedules", worker: "workers",
  error: "errors",
};
const SINGLE = ["outcome", "key_prefix", "created_after", "created_before"];
export const NAMES = [...Object.keys(LISTS), ...SINGLE];
const WORDS = { outcome: "outcome", key_prefix: "key", created_after: "from", created_before: "until" };
/** What people write before the colon. */
export const SAID = [...Object.keys(LISTS), ...Object.values(WORDS)];
const MANY = 100; // values of a kind that the API takes

/** { state: ["dead"], key_prefix: "a", … } of the address's query. */
export function filterOf(query) {
  const found = {};
  for (const name of Object.keys(LISTS)) if (query.getAll(name).length) found[name] = query.getAll(name);
  for (const name of SINGLE) if (query.get(name)) found[name] = query.get(name);
  return found;
}

export const isEmpty = (filter) => !Object.keys(filter).length;

/** With what the words add; a single thing takes the place of what was there. */
export function joined(filter, more) {
  const both = { ...filter };
  for (const [name, value] of Object.entries(more)) {
    both[name] = Array.isArray(value) ? [...new Set([...(filter[name] ?? []), ...value])].slice(0, MANY) : value;
  }
  return both;
}

/** As POST jobs/bulk takes it. */
export function bodyOf(filter) {
  return Object.fromEntries(Object.entries(filter).map(([name, value]) => [LISTS[name] ?? name, value]));
}

/** [{ name, word, value, rest }]: what could be taken away one at a time; `rest` is the filter without it. */
export function partsOf(filter) {
  return Object.entries(filter).filter(([name]) => name !== "state").flatMap(([name, value]) => {
    const { [name]: gone, ...others } = filter;
    if (!Array.isArray(value)) return [{ name, word: WORDS[name], value: shown(name, value), rest: others }];
    return value.map((one) => {
      const left = value.filter((other) => other !== one);
      return { name, word: name, value: one, rest: left.length ? { ...others, [name]: left } : others };
    });
  });
}

const shown = (name, value) =>
  (name === "key_prefix" || name === "outcome" || Number.isNaN(Date.parse(value)) ? value : local(Date.parse(value)));

const OF = {
  task: "of task", queue: "in queue", tag: "tagged", schedule: "of schedule", worker: "on worker",
  error: "that failed with",
};

/** "dead jobs of task a or b in queue c": for the question before a bulk action. */
export function inWords(filter) {
  const list = (name, and) => filter[name]?.join(and);
  const parts = [list("state", " or "), "jobs"];
  for (const [name, words] of Object.entries(OF)) {
    if (filter[name]) parts.push(words, list(name, name === "tag" ? " and " : " or "));
  }
  if (filter.outcome) parts.push(`that ended ${filter.outcome}`);
  if (filter.key_prefix) parts.push(`whose key starts with ${filter.key_prefix}`);
  if (filter.created_after) parts.push(`created from ${shown("created_after", filter.created_after)}`);
  if (filter.created_before) parts.push(`created until ${shown("created_before", filter.created_before)}`);
  return parts.filter(Boolean).join(" ");
}

const TERM = /(?:([a-z_]+):)?(?:"((?:[^"\\]|\\.)*)"?|(\S+))/gi;

/** [{ name, value }] of task:a queue:"b c" d; a word alone has no name. */
export function termsOf(text) {
  const terms = [];
  for (const [whole, name, quoted, bare] of text.matchAll(TERM)) {
    const value = quoted === undefined ? bare : quoted.replace(/\\(.)/g, "$1");
    const known = name && SAID.includes(name.toLowerCase());
    if (known) terms.push({ name: name.toLowerCase(), value });
    else terms.push({ name: null, value: quoted === undefined ? whole : value });
  }
  return terms.filter((term) => term.value);
}

export const quoted = (value) => (/^[^\s"]+$/.test(value) ? value : JSON.stringify(value));

/** The filter that the words mean. Names that are not known in full are looked up; `tasks` are those of this server. */
export async function meant(terms, { tasks, states }) {
  let found = {};
  for (const { name, value } of terms) {
    if (name === null || name === "task") found = joined(found, { task: like(value, tasks) });
    else if (name === "error") found = joined(found, { error: like(value, await errors()) });
    else if (name === "state") found = joined(found, { state: state(value, states) });
    else if (name === "from") found = joined(found, { created_after: instant(value) });
    else if (name === "until") found = joined(found, { created_before: instant(value) });
    else if (name === "outcome") found = joined(found, { outcome: outcome(value) });
    else found = joined(found, name === "key" ? { key_prefix: value } : { [name]: [value] });
  }
  return found;
}

/** The one of that name; else all that have the text in theirs; else the text itself, which may be new to us. */
function like(text, names) {
  if (names.includes(text)) return [text];
  const part = names.filter((name) => name.toLowerCase().includes(text.toLowerCase()));
  return part.length ? part.slice(0, MANY) : [text];
}

function state(value, states) {
  const found = states.filter((one) => one.startsWith(value.toLowerCase()));
  if (!found.length) throw new Error(`Unknown state ${value}: use ${states.join(", ")}.`);
  return found;
}

function outcome(value) {
  if (value.toLowerCase() !== "partial") throw new Error(`Only partial is an outcome to look for: use state:${value}.`);
  return "partial";
}

function instant(value) {
  const at = Date.parse(value);
  if (Number.isNaN(at)) throw new Error(`${value} is not a time: write 2030-01-31, or "2030-01-31 09:30".`);
  return new Date(/^\d{4}-\d\d-\d\d$/.test(value) ? `${value}T00:00` : value).toISOString();
}

/** What dead and retrying jobs failed with. */
export async function errors() {
  const [dead, retrying] = await Promise.all([get("dead"), get("jobs", { state: "retrying", limit: 200 })]);
  return [...new Set([...dead.items, ...retrying.items].map((one) => one.error).filter(Boolean))];
}

const ID = /^[0-9a-f]{8}(-[0-9a-f]{0,4}){0,3}(-[0-9a-f]{0,12})?$/i;
const LEAST = "00000000-0000-0000-0000-000000000000";

/** Up to two jobs whose id this is, or begins so; null: it is no id. */
export async function jobsOf(text) {
  if (!ID.test(text)) return null;
  const begin = text.toLowerCase();
  if (begin.length === LEAST.length) return [(await get(`jobs/${encodeURIComponent(begin)}`)).id];
  // A list by id can start after any id, also one that no job has.
  const page = await get("jobs", { sort: "created", order: "asc", after: begin + LEAST.slice(begin.length), limit: 2 });
  return page.items.map((job) => job.id).filter((id) => id.startsWith(begin));
}
