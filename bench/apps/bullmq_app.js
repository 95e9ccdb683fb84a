// BullMQ's side: `fill N [BATCH] | single N | paced N GAP | worker SIZE`, as every peer's program.
// SIZE is how many jobs run at once. Jobs are removed when they are done.
"use strict";
const { Queue, Worker } = require("bullmq");
const { fill, late, paced, single, tick } = require("./meter.js");

const { hostname: host, port } = new URL(process.env.BENCH_STORE);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const BATCH = 1000;
const DATA = process.env.BENCH_PAYLOAD ? { text: process.env.BENCH_PAYLOAD } : {};
const jobs = (share) => Array.from({ length: share }, () => ({ name: "noop", data: DATA }));

async function run(job) {
  if (job.name === "noop") tick();
  else late(job.data.due);
}

function work(size) {
  const worker = new Worker("bench", run, { connection, concurrency: size, removeOnComplete: { count: 0 } });
  worker.on("error", (error) => console.error(error));
  process.on("SIGTERM", () => process.exit(0));
  return new Promise(() => {});
}

async function main([word, ...rest]) {
  const [size, second] = rest.map(Number);
  if (word === "worker") return work(size);
  const queue = new Queue("bench", { connection, defaultJobOptions: { removeOnComplete: true } });
  await queue.waitUntilReady();
  if (word === "fill") await fill(size, second || BATCH, (share) => queue.addBulk(jobs(share)));
  else if (word === "single") await single(size, () => queue.add("noop", {}));
  else if (word === "paced") await paced(size, second, (due) => queue.add("stamp", { due }));
  else throw new Error(`bullmq_app does not know ${word}`);
  await queue.close();
}

main(process.argv.slice(2)).then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
