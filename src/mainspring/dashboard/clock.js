// The server's time: what is "3 s ago" must not depend on how this machine's clock is set.
import { get } from "./api.js";
import { useEffect, useState } from "./html.js";

let offset = 0;

export const now = () => Date.now() + offset;

export async function setClock() {
  const asked = Date.now();
  const { now: theirs } = await get("time");
  offset = Date.parse(theirs) - (asked + Date.now()) / 2;
  if (Math.abs(offset) < 2000) offset = 0;
}

const tickers = new Set();
setInterval(() => document.hidden || tickers.forEach((tick) => tick(now())), 1000);

/** The time, updated each second. */
export function useNow() {
  const [time, set] = useState(now);
  useEffect(() => {
    tickers.add(set);
    return () => tickers.delete(set);
  }, []);
  return time;
}
