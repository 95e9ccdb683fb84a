// What a job tells the outside, as meter.py has it, and the clocks of a producer.
"use strict";
const fs = require("fs");
const path = require("path");

const HOME = process.env.BENCH_HOME;

const seconds = () => performance.now() / 1000;
const wall = () => (performance.timeOrigin + performance.now()) / 1000;
const sleep = (span) => new Promise((wake) => setTimeout(wake, span * 1000));
const answer = (figures) => console.log(JSON.stringify(figures));

// The meter: Node cannot map a file, so the count is written at most every 10 ms, and after the last job.
const count = { jobs: 0, first: 0, last: 0, file: null, due: false };

function write() {
  const bytes = Buffer.alloc(24);
  bytes.writeBigInt64LE(BigInt(count.jobs), 0);
  bytes.writeDoubleLE(count.first, 8);
  bytes.writeDoubleLE(count.last, 16);
  count.file ??= fs.openSync(path.join(HOME, "count"), "w");
  fs.writeSync(count.file, bytes, 0, 24, 0);
  count.due = false;
}

function tick() {
  count.last = wall();
  count.first ||= count.last;
  count.jobs += 1;
  if (!count.due) {
    count.due = true;
    setTimeout(write, 10);
  }
}

function late(due) {
  fs.appendFileSync(path.join(HOME, "late"), `${(wall() - due).toFixed(6)}\n`);
}

function end(value) {
  fs.appendFileSync(path.join(HOME, "ended"), `${wall().toFixed(6)} ${value}\n`);
}

let marks;
function mark(number) {
  marks ??= fs.openSync(path.join(HOME, "marks"), "a");
  fs.writeSync(marks, `${wall().toFixed(6)} ${number}\n`);
}

// Calls `one` with the time, `jobs` times, `gap` seconds apart on average.
async function paced(jobs, gap, one) {
  let next = seconds();
  for (let n = 0; n < jobs; n++) {
    await sleep(Math.max(0, next - seconds()));
    await one(wall());
    next += gap * (0.5 + Math.random());
  }
  answer({ jobs });
}

async function single(jobs, one) {
  await one();
  const start = seconds();
  for (let n = 0; n < jobs; n++) await one();
  answer({ jobs, seconds: seconds() - start });
}

// Calls `many` with how many, until it has been called for all.
async function fill(jobs, batch, many) {
  const start = seconds();
  for (let first = 0; first < jobs; first += batch) await many(Math.min(batch, jobs - first));
  answer({ jobs, seconds: seconds() - start });
}

module.exports = { answer, end, fill, late, mark, paced, single, tick, wall };
