// What a program of durable steps in Node is asked: `setup | walks JOBS STEPS | worker SIZE`, as step_peer.py has it.
"use strict";
const { answer, end, mark, wall } = require("./meter.js");

const URL = process.env.BENCH_STORE;

async function hop(n) {
  mark(n);
  return n + 1;
}

// Calls `step` with the name of each step and what it does, in turn.
async function walk(steps, step) {
  let n = 0;
  for (let number = 0; number < steps; number++) n = await step(`hop-${number}`, () => hop(n));
  end(n);
  return n;
}

async function main(peer) {
  const [word, ...numbers] = process.argv.slice(2);
  const [first, second] = numbers.map(Number);
  if (word === "worker") {
    process.on("SIGTERM", () => process.exit(0));
    await peer.work(first);
    return new Promise(() => {});
  }
  const at = wall();
  if (word === "setup") await peer.setup();
  else if (word === "walks") await peer.walks(first, second);
  else throw new Error(`this program does not know ${word}`);
  answer({ at });
}

const run = (peer) =>
  main(peer).then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });

module.exports = { URL, run, walk };
