// JSON without loss of digits: a number that JavaScript would change, such as 2^53 + 1 or 1.0, is kept as text.

/** A number that JavaScript would round or format differently. */
export class LosslessNumber {
  constructor(text) {
    this.text = text;
  }
  toString() {
    return this.text;
  }
}

/** JSON text that stringify() inserts unchanged. */
export class Raw extends LosslessNumber {}

const MAY_LOSE_DIGITS = /[\d.][eE.]|\d\.\d|-0|\d{16}/;
const PARTS = [
  /([{}[\],:])/,
  /("(?:[^"\\\u0000-\u001f]|\\.)*")/,
  /(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)/,
  /(true|false|null)/,
];
const TOKEN = new RegExp(`\\s*(?:${PARTS.map((part) => part.source).join("|")})`, "y");

/** Removes the prototype of an object: a queue may be named "constructor". */
const withoutPrototype = (one) =>
  (one !== null && typeof one === "object" && !Array.isArray(one) ? Object.setPrototypeOf(one, null) : one);

/** Like JSON.parse, with LosslessNumber for numbers that would change. Throws SyntaxError with the position. */
export function parse(text) {
  if (!MAY_LOSE_DIGITS.test(text)) return JSON.parse(text, (_, one) => withoutPrototype(one));
  JSON.parse(text); // throws if the text is invalid: the code below assumes that it is valid
  TOKEN.lastIndex = 0;
  return value(text, next(text));
}

function next(text) {
  return TOKEN.exec(text);
}

function value(text, token) {
  const [, mark, string, number, word] = token;
  if (string !== undefined) return JSON.parse(string);
  if (number !== undefined) return String(Number(number)) === number ? Number(number) : new LosslessNumber(number);
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

/** Like JSON.stringify; each LosslessNumber is written unchanged. */
export function stringify(data, indent = "", margin = "") {
  if (data instanceof LosslessNumber) return data.text;
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

/** The data with ordinary numbers, for calculation. For statistics, not for user data. */
export function withPlainNumbers(data) {
  if (data === null || typeof data !== "object") return data;
  if (data instanceof LosslessNumber) return Number(data.text);
  if (Array.isArray(data)) return data.map(withPlainNumbers);
  return Object.fromEntries(Object.entries(data).map(([name, one]) => [name, withPlainNumbers(one)]));
}
