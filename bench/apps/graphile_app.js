// graphile-worker's side: `setup | fill N [BATCH] | single N | paced N GAP | worker SIZE`, as every peer's program.
// SIZE is that of its local queue; 0 is no local queue and no batched completion.
"use strict";
const { Logger, makeWorkerUtils, run } = require("graphile-worker");
const { Pool } = require("pg");
const { answer, fill, late, paced, single, tick } = require("./meter.js");

const DSN = process.env.BENCH_STORE;
const BATCH = 1000;
const jobs = (share) => Array.from({ length: share }, () => ({ identifier: "noop", payload: {} }));
const quiet = new Logger(() => (level, text) => level === "error" && console.error(text));

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

async function main([word, ...rest]) {
  const [size, second] = rest.map(Number);
  if (word === "worker") return worker(size);
  const utils = await makeWorkerUtils({ connectionString: DSN, logger: quiet });
  if (word === "setup") {
    await utils.migrate();
    answer({});
  } else if (word === "fill") await fill(size, second || BATCH, (share) => utils.addJobs(jobs(share)));
  else if (word === "single") await single(size, () => utils.addJob("noop", {}));
  else if (word === "paced") await paced(size, second, (due) => utils.addJob("stamp", { due }));
  else throw new Error(`graphile_app does not know ${word}`);
  await utils.release();
}

main(process.argv.slice(2)).then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
