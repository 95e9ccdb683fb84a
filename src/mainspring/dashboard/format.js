// Numbers and times as text.

/** A number from the API, possibly a LosslessNumber, as an ordinary number. null stays null. */
export const toNumber = (n) => (n === null || n === undefined ? null : Number(n));

const STEPS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

/** 0.00042 -> "<1 ms", 0.0042 -> "4.2 ms", 75 -> "1 min 15 s", 90000 -> "1 d 1 h". */
export function duration(given) {
  const seconds = toNumber(given);
  if (seconds === null) return "–";
  if (seconds < 0) return `−${duration(-seconds)}`;
  if (seconds < 0.00095) return seconds ? "<1 ms" : "0 ms";
  if (seconds < 0.0095) return `${Number((seconds * 1000).toFixed(1))} ms`;
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${Number(seconds.toFixed(1))} s`;
  let rest = Math.round(seconds);
  const parts = [];
  for (const [unit, length] of STEPS) {
    const n = Math.floor(rest / length);
    if (n) parts.push(`${n} ${unit}`);
    else if (parts.length) break;
    rest -= n * length;
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}
/** A duration as an axis label: two different values never have the same label. */
export const axisDuration = (seconds) =>
  (seconds && seconds < 0.0095 ? `${Number((seconds * 1000).toPrecision(2))} ms` : duration(seconds));

/** "3 min ago", "in 2 h", "now". */
export function relative(at, now) {
  const seconds = (at - now) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  const [unit, length] = STEPS.find(([, length]) => Math.abs(seconds) >= length);
  const text = `${Math.floor(Math.abs(seconds) / length)} ${unit}`;
  return seconds < 0 ? `${text} ago` : `in ${text}`;
}

export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

const LOCAL = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });
const CLOCK = new Intl.DateTimeFormat("sv-SE", { timeStyle: "medium" });

/** 2030-01-01 10:30:00, in the viewer's zone. */
export const local = (at) => LOCAL.format(new Date(at));
export const clockTime = (at) => CLOCK.format(new Date(at));
/** 2030-01-01 09:30:00 UTC. */
export const utc = (at) => `${new Date(at).toISOString().slice(0, 19).replace("T", " ")} UTC`;
/** Whether local time equals UTC at that instant, so that one of them is enough. */
export const isUtc = (at) => utc(at).startsWith(local(at));
export const localAndUtc = (at) => (isUtc(at) ? utc(at) : `${local(at)} ${zone}\n${utc(at)}`);

/** 1234567 -> "1,234,567". */
export const count = (n) => (n === null || n === undefined ? "–" : Number(n).toLocaleString("en"));
/** 1234567 -> "1.2 M". */
export function shortCount(n) {
  const [unit, size] = [["G", 1e9], ["M", 1e6], ["k", 1e3]].find(([, size]) => n >= size) ?? ["", 1];
  return unit ? `${(n / size).toFixed(n / size < 10 ? 1 : 0)} ${unit}` : String(Math.round(n * 10) / 10);
}
/** 0.04 -> "<0.1", 4.25 -> "4.3", 1234 -> "1.2 k". */
export const rate = (n) => (!n || n >= 10 ? shortCount(Math.round(n)) : n < 0.05 ? "<0.1" : n.toFixed(1));
export function bytes(n) {
  const [unit, size] = [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]].find(([, size]) => n >= size) ?? ["B", 1];
  return `${(n / size).toFixed(size === 1 || n / size >= 100 ? 0 : 1)} ${unit}`;
}
/** 0.9996 -> "99.9 %": only 1 is 100 %. */
export function percent(given) {
  const share = toNumber(given);
  if (share === null) return "–";
  return share === 0 || share === 1 ? `${share * 100} %` : `${Math.min(99.9, Math.max(0.1, share * 100)).toFixed(1)} %`;
}
export const plural = (n, word, many = `${word}s`) => `${count(n)} ${n === 1 ? word : many}`;
