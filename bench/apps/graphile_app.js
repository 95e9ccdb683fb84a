// graphile-worker's side: `setup | fill N [BATCH] | single N | paced N GAP | worker SIZE`, as every peer's program.
// SIZE is that of its local queue; 0 is no local queue and no batched completion.
"use strict";
const fs = require("fs");
const path = require("path");
const { Logger, makeWorkerUtils, run } = require("graphile-worker");
const { Pool } = require("pg");

const HOME = process.env.BENCH_HOME;
const DSN = process.env.BENCH_STORE;
const BATCH = 1000;
const quiet = new Logger(() => (level, text) => level === "error" && console.error(text));

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

async function worker(size) {
  const delay = size ? 0 : -1;
  const settings = {
    concurrentJobs: 24, maxPoolSize: 10, pollInterval: 2000, localQueue: size ? { size } : undefined,
    completeJobBatchDelay: delay, failJobBatchDelay: delay,
  };
  const pool = new Pool({ connectionString: DSN, max: 10 });
  pool.on("error", () => {});
  const taskList = { noop: async () => tick(), stamp: async ({ due }) => late(due) };
  const runner = await run({ preset: { worker: settings }, pgPool: pool, logger: quiet, taskList });
  await runner.promise;
}

async function fill(jobs, batch, utils) {
  const start = seconds();
  for (let first = 0; first < jobs; first += batch) {
    const share = Math.min(batch, jobs - first);
    await utils.addJobs(Array.from({ length: share }, () => ({ identifier: "noop", payload: {} })));
  }
  answer({ jobs, seconds: seconds() - start });
}

async function single(jobs, utils) {
  await utils.addJob("noop", {});
  const start = seconds();
  for (let n = 0; n < jobs; n++) await utils.addJob("noop", {});
  answer({ jobs, seconds: seconds() - start });
}

async function paced(jobs, gap, utils) {
  let next = seconds();
  for (let n = 0; n < jobs; n++) {
    await sleep(Math.max(0, next - seconds()));
    await utils.addJob("stamp", { due: wall() });
    next += gap * (0.5 + Math.random());
  }
  answer({ jobs });
}

async function main([word, ...rest]) {
  const [size, second] = rest.map(Number);
  if (word === "worker") return worker(size);
  const utils = await makeWorkerUtils({ connectionString: DSN, logger: quiet });
  if (word === "setup") {
    await utils.migrate();
    answer({});
  } else if (word === "fill") await fill(size, second || BATCH, utils);
  else if (word === "single") await single(size, utils);
  else if (word === "paced") await paced(size, second, utils);
  else throw new Error(`graphile_app does not know ${word}`);
  await utils.release();
}

main(process.argv.slice(2)).then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
