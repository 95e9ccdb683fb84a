// The server's time: "3 s ago" must not depend on this machine's clock.
import { get } from "./api.js";
import { useEffect, useState } from "./html.js";

let offset = 0;

export const now = () => Date.now() + offset;

export async function setClock() {
  const sentAt = Date.now();
  const { now: serverNow } = await get("time");
  offset = Date.parse(serverNow) - (sentAt + Date.now()) / 2;
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
