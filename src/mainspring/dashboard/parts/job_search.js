// The field that finds jobs, and what a list is narrowed to.
import { html, useEffect, useId, useMemo, useState } from "../html.js";
import { SAID, joined, jobsOf, meant, partsOf, quoted, termsOf } from "../job_filter.js";
import { go, jobLink } from "../route.js";
import { Icon } from "./icons.js";
import { instant, typed } from "./moment.js";
import { STATES } from "./state.js";

const OFFERED = 40;
const FEW = 6; // chips of a kind

/** `known`: { tasks, queues }, names to offer; `onFilter` gets the filter with what was typed on top. */
export function JobSearch({ filter, known, onFilter }) {
  const [text, set] = useState("");
  const [state, say] = useState({ busy: false, words: "" });
  const submit = async (event) => {
    event.preventDefault();
    say({ busy: true, words: "" });
    try {
      const words = await found(text.trim(), known, (more) => onFilter(joined(filter, more)));
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
      placeholder="Task, job id, or queue:mail state:dead tag:… error:…" aria-describedby="search-said"
      aria-invalid=${Boolean(state.words)}
      onInput=${(event) => (set(event.target.value), say({ busy: false, words: "" }))}
      onFocus=${(event) => event.target.select()}
      onKeyDown=${(event) => event.key === "Escape" && event.target.blur()} />
    <datalist id="search-words">
      ${useOffers(text, known).map((one) => html`<option key=${one} value=${one} />`)}</datalist>
    <button disabled=${state.busy || !text.trim()}>Search</button>
    <p id="search-said" class="fault" role="alert" hidden=${!state.words}>${state.words}</p>
  </form>`;
}

/** Goes to the job, or tells the filter that is meant; words if there is nothing like it. */
async function found(text, known, tell) {
  if (!text) return "";
  const jobs = known.tasks.includes(text) ? null : await jobsOf(text);
  if (jobs?.length === 1) return (go(jobLink(jobs[0])), "");
  if (jobs) {
    return jobs.length
      ? `Several ids start with ${text}: type more of it.`
      : `No job has an id that starts with ${text}.`;
  }
  tell(await meant(termsOf(text), { tasks: known.tasks, states: STATES }));
  return "";
}

/** Whole texts to put into the field: a browser compares them with all that stands there. */
function useOffers(text, known) {
  return useMemo(() => {
    const last = text.match(/[^\s]*$/)[0];
    const before = text.slice(0, text.length - last.length);
    const words = [
      ...known.tasks.map((one) => `task:${quoted(one)}`), ...known.queues.map((one) => `queue:${quoted(one)}`),
      ...STATES.map((one) => `state:${one}`), ...SAID.map((one) => `${one}:`),
    ];
    const fits = words.filter((word) => word !== last && word.toLowerCase().includes(last.toLowerCase()));
    return fits.slice(0, OFFERED).map((word) => before + word);
  }, [text, known]);
}

/** What the list is narrowed to, each with a button that takes it away. */
export function Chips({ filter, onFilter }) {
  const parts = partsOf(filter);
  const many = (name) => parts.filter((part) => part.name === name).length > FEW;
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

/** Every part of a filter as a field of its own: [name, label, names to offer]. */
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
  const now = time ? typed(Date.parse(filter[name] ?? "")) : name === "key_prefix" ? filter[name] ?? "" : "";
  const [text, set] = useState(now);
  useEffect(() => set(now), [now]);
  const apply = async (event) => {
    const value = event.target.value.trim();
    if (value === now) return;
    const { [name]: gone, ...rest } = filter;
    if (!value) return onFilter(rest);
    if (time) return instant(value) && onFilter({ ...rest, [name]: instant(value) });
    if (name === "key_prefix") return onFilter({ ...rest, key_prefix: value });
    set("");
    const found = name === "error" ? await meant([{ name, value }], { tasks: [], states: [] }) : { [name]: [value] };
    onFilter(joined(filter, found));
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
