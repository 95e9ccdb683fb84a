// JSON whose numbers stay what they are: an integer past 2^53, or 1.0, is kept as it was written.

/** A number that JavaScript would round or write otherwise. */
export class Exact {
  constructor(text) {
    this.text = text;
  }
  toString() {
    return this.text;
  }
}

/** JSON text that stands for itself inside of what stringify() is given. */
export class Raw extends Exact {}

const DELICATE = /[\d.][eE.]|\d\.\d|-0|\d{16}/;
const PARTS = [
  /([{}[\],:])/,
  /("(?:[^"\\\u0000-\u001f]|\\.)*")/,
  /(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)/,
  /(true|false|null)/,
];
const TOKEN = new RegExp(`\\s*(?:${PARTS.map((part) => part.source).join("|")})`, "y");

/** Without what every object has: a queue may be called "constructor". */
const bare = (one) =>
  (one !== null && typeof one === "object" && !Array.isArray(one) ? Object.setPrototypeOf(one, null) : one);

/** Like JSON.parse; throws SyntaxError with the place. */
export function parse(text) {
  if (!DELICATE.test(text)) return JSON.parse(text, (_, one) => bare(one));
  JSON.parse(text); // for its errors: what follows may assume that the text is right
  TOKEN.lastIndex = 0;
  return value(text, next(text));
}

function next(text) {
  return TOKEN.exec(text);
}

function value(text, token) {
  const [, mark, string, number, word] = token;
  if (string !== undefined) return JSON.parse(string);
  if (number !== undefined) return String(Number(number)) === number ? Number(number) : new Exact(number);
  if (word !== undefined) return JSON.parse(word);
  return mark === "{" ? members(text) : elements(text);
}

function members(text) {
  const found = Object.create(null);
  let token = next(text);
  while (token[1] !== "}") {
    if (token[1] === ",") token = next(text);
    const name = JSON.parse(token[2]);
    next(text);
    found[name] = value(text, next(text));
    token = next(text);
  }
  return found;
}

function elements(text) {
  const found = [];
  let token = next(text);
  while (token[1] !== "]") {
    if (token[1] === ",") token = next(text);
    found.push(value(text, token));
    token = next(text);
  }
  return found;
}

/** Like JSON.stringify, numbers as they were. */
export function stringify(data, indent = "", margin = "") {
  if (data instanceof Exact) return data.text;
  if (data === null || typeof data !== "object") return JSON.stringify(data) ?? "null";
  const [open, close] = Array.isArray(data) ? "[]" : "{}";
  const inner = margin + indent;
  const parts = Array.isArray(data)
    ? data.map((one) => stringify(one, indent, inner))
    : Object.entries(data).filter(([, one]) => one !== undefined)
      .map(([name, one]) => `${JSON.stringify(name)}:${indent && " "}${stringify(one, indent, inner)}`);
  if (!parts.length) return open + close;
  return indent ? `${open}\n${inner}${parts.join(`,\n${inner}`)}\n${margin}${close}` : open + parts.join(",") + close;
}

/** The same with ordinary numbers, to be reckoned with: of figures, not of what users wrote. */
export function plain(data) {
  if (data === null || typeof data !== "object") return data;
  if (data instanceof Exact) return Number(data.text);
  if (Array.isArray(data)) return data.map(plain);
  return Object.fromEntries(Object.entries(data).map(([name, one]) => [name, plain(one)]));
}
