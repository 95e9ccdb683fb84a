// The selected rows of a list: some, on any of its pages, or all that match its filter.
import { plural } from "./format.js";
import { useEffect, useRef, useState } from "./html.js";

/**
 * `name` is the query of the list: the selection is cleared when its filter changes. Rows have an `id` and `can`, the
 * actions that they allow. `noun` and `inWords` describe the rows. `filter(at)` returns the API's filter for all rows;
 * `at` is the argument of `everything(at)`.
 */
export function useSelection(name, { noun, inWords, filter }) {
  const [ids, set] = useState(new Map());
  const [since, all] = useState(null);
  const last = useRef(null);
  const list = new URLSearchParams(name);
  list.delete("after");
  const clear = () => (set(new Map()), all(null));
  useEffect(clear, [list.toString()]);
  const change = (rows, on) => {
    all(null);
    set((before) => {
      const after = new Map(before);
      rows.forEach((row) => (on ? after.set(row.id, row.can) : after.delete(row.id)));
      return after;
    });
  };
  const toggle = (rows, row, range) => {
    const on = !ids.has(row.id) && since === null;
    const [from, to] = [rows.findIndex((one) => one.id === last.current), rows.indexOf(row)].sort((a, b) => a - b);
    if (since !== null) set(new Map(rows.map((one) => [one.id, one.can])));
    change(range && from >= 0 ? rows.slice(from, to + 1) : [row], on);
    last.current = row.id;
  };
  const some = since === null;
  return {
    any: ids.size > 0 || !some, all: !some, clear, toggle, page: change,
    shown: (rows) => (some ? ids : new Set(rows.map((row) => row.id))),
    allows: (rows) => {
      const now = new Map(rows.map((row) => [row.id, row.can]));
      return some ? [...ids].flatMap(([id, can]) => now.get(id) ?? can) : undefined;
    },
    everything: (at) => all(at),
    words: some ? `${plural(ids.size, noun)} selected` : `All ${inWords}`,
    what: some ? plural(ids.size, `selected ${noun}`) : `all ${inWords}`,
    choice: some ? { ids: [...ids.keys()], can: ids } : { filter: filter(since) },
  };
}
