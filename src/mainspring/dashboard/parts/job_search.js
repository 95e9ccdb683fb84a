// The search field for jobs, and the active filters of the list.
import { html, useEffect, useId, useMemo, useState } from "../html.js";
import { SEARCH_WORDS, mergeFilters, jobIdsStarting, resolveTerms, partsOf, quoted, termsOf } from "../job_filter.js";
import { go, jobLink } from "../route.js";
import { Icon } from "./icons.js";
import { toInstant, toFieldText } from "./instant_field.js";
import { STATES } from "./state.js";

const MAX_SUGGESTIONS = 40;
const MAX_CHIPS = 6; // of one filter

/** `known` is { tasks, queues }, names to suggest; `onFilter` gets the current filter merged with the typed one. */
export function JobSearch({ filter, known, onFilter }) {
  const [text, set] = useState("");
  const [state, say] = useState({ busy: false, words: "" });
  const submit = async (event) => {
    event.preventDefault();
    say({ busy: true, words: "" });
    try {
      const words = await search(text.trim(), known, (more) => onFilter(mergeFilters(filter, more)));
      if (!words) set("");
      say({ busy: false, words });
    } catch (error) {
      say({ busy: false, words: error.message });
    }
  };
  return html`<form class="job-search" role="search" onSubmit=${submit}>
    <${Icon} name="search" />
    <label class="unseen" for="search">Search jobs</label>
    <input id="search" type="search" list="search-words" autocomplete="off" spellcheck=${false} enterkeyhint="search"
      value=${text}
      placeholder="Task, job id, or queue:mail state:dead tag:… error:…" aria-describedby="search-error"
      aria-invalid=${Boolean(state.words)}
      onInput=${(event) => (set(event.target.value), say({ busy: false, words: "" }))}
      onFocus=${(event) => event.target.select()}
      onKeyDown=${(event) => event.key === "Escape" && event.target.blur()} />
    <datalist id="search-words">
      ${useSuggestions(text, known).map((one) => html`<option key=${one} value=${one} />`)}</datalist>
    <button disabled=${state.busy || !text.trim()}>Search</button>
    <p id="search-error" class="fault" role="alert" hidden=${!state.words}>${state.words}</p>
  </form>`;
}

/** Navigates to the job with this id, or calls `onFilter` with the typed filter. Returns a message if there is none. */
async function search(text, known, onFilter) {
  if (!text) return "";
  const jobs = known.tasks.includes(text) ? null : await jobIdsStarting(text);
  if (jobs?.length === 1) return (go(jobLink(jobs[0])), "");
  if (jobs) {
    return jobs.length
      ? `Several ids start with ${text}: type more of it.`
      : `No job has an id that starts with ${text}.`;
  }
  onFilter(await resolveTerms(termsOf(text), { tasks: known.tasks, states: STATES }));
  return "";
}

/** Suggestions for the field: complete texts, since a browser compares them with the whole text of the field. */
function useSuggestions(text, known) {
  return useMemo(() => {
    const last = text.match(/[^\s]*$/)[0];
    const before = text.slice(0, text.length - last.length);
    const words = [
      ...known.tasks.map((one) => `task:${quoted(one)}`), ...known.queues.map((one) => `queue:${quoted(one)}`),
      ...STATES.map((one) => `state:${one}`), ...SEARCH_WORDS.map((one) => `${one}:`),
    ];
    const fits = words.filter((word) => word !== last && word.toLowerCase().includes(last.toLowerCase()));
    return fits.slice(0, MAX_SUGGESTIONS).map((word) => before + word);
  }, [text, known]);
}

/** The active filters, each with a button that removes it. */
export function Chips({ filter, onFilter }) {
  const parts = partsOf(filter);
  const many = (name) => parts.filter((part) => part.name === name).length > MAX_CHIPS;
  const seen = new Set();
  const chips = parts.flatMap((part) => {
    if (!many(part.name)) return [part];
    if (seen.has(part.name)) return [];
    seen.add(part.name);
    const { [part.name]: gone, ...rest } = filter;
    return [{ ...part, value: `any of ${gone.length}`, title: gone.join("\n"), rest }];
  });
  if (!chips.length) return null;
  return html`<div class="chips" role="group" aria-label="Active filters">
    ${chips.map(({ word, value, title, rest }) => html`<span class="chip" key=${`${word}:${value}`} title=${title}>
      <span><span class="muted">${word}</span> ${value}</span>
      <button class="quiet" aria-label=${`Remove ${word} ${value}`} onClick=${() => onFilter(rest)}>
        <${Icon} name="close" size=${12} /></button>
    </span>`)}
    <button class="quiet" onClick=${() => onFilter({})}>Clear all</button>
  </div>`;
}

/** The filters with their own field: [name, label]. */
const FIELDS = [
  ["task", "Task"], ["queue", "Queue"], ["tag", "Tag"], ["schedule", "Schedule"], ["worker", "Worker"],
  ["error", "Error"], ["key_prefix", "Key starts with"],
  ["created_after", "Created from"], ["created_before", "Created until"],
];

export function MoreFilters({ filter, known, onFilter }) {
  const [open, set] = useState(false);
  return html`<details class="more-filters" open=${open} onToggle=${(event) => set(event.target.open)}>
    <summary>More filters</summary>
    ${open && html`<div class="card fields">${FIELDS.map(([name, label]) => html`
      <${Field} key=${name} name=${name} label=${label} filter=${filter} offers=${known[`${name}s`] ?? []}
        onFilter=${onFilter} />`)}
    </div>`}
  </details>`;
}

function Field({ name, label, filter, offers, onFilter }) {
  const id = useId();
  const time = name.startsWith("created");
  const now = time ? toFieldText(Date.parse(filter[name] ?? "")) : name === "key_prefix" ? filter[name] ?? "" : "";
  const [text, set] = useState(now);
  useEffect(() => set(now), [now]);
  const apply = async (event) => {
    const value = event.target.value.trim();
    if (value === now) return;
    const { [name]: gone, ...rest } = filter;
    if (!value) return onFilter(rest);
    if (time) return toInstant(value) && onFilter({ ...rest, [name]: toInstant(value) });
    if (name === "key_prefix") return onFilter({ ...rest, key_prefix: value });
    set("");
    const terms = [{ name, value }];
    const found = name === "error" ? await resolveTerms(terms, { tasks: [], states: [] }) : { [name]: [value] };
    onFilter(mergeFilters(filter, found));
  };
  return html`<div class="field"><label for=${id}>${label}</label>
    <input id=${id} type=${time ? "datetime-local" : "text"} step=${time ? 1 : undefined}
      autocomplete="off" spellcheck=${false}
      value=${text} list=${offers.length ? `${id}-offers` : undefined} placeholder=${time ? undefined : "any"}
      onInput=${(event) => set(event.target.value)} onChange=${apply} />
    ${offers.length > 0 && html`<datalist id=${`${id}-offers`}>
      ${offers.map((one) => html`<option key=${one} value=${one} />`)}</datalist>`}
  </div>`;
}
