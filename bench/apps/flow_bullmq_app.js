// BullMQ's side of the flows: `fan N | chains N | worker SIZE`. A parent waits for its children; a chain is nested.
"use strict";
const { FlowProducer, Worker } = require("bullmq");
const { answer, end, tick, wall } = require("./meter.js");

const { hostname: host, port } = new URL(process.env.BENCH_STORE);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const STEPS = 10; // as meter.py has it
const BATCH = 100;
const sum = (values) => values.reduce((a, b) => a + b, 0);

async function run(job) {
  if (job.name === "item") {
    tick();
    return job.data.n;
  }
  const before = Object.values(await job.getChildrenValues());
  if (job.name === "total") {
    end(sum(before));
    return sum(before);
  }
  tick();
  const n = sum(before) + 1;
  if (job.name === "last") end(n);
  return n;
}

function work(size) {
  const worker = new Worker("bench", run, { connection, concurrency: size });
  worker.on("error", (error) => console.error(error));
  process.on("SIGTERM", () => process.exit(0));
  return new Promise(() => {});
}

const fan = (items) => ({
  name: "total",
  queueName: "bench",
  children: Array.from({ length: items }, (_, n) => ({ name: "item", queueName: "bench", data: { n } })),
});

function chain() {
  let flow = { name: "hop", queueName: "bench", data: {} };
  for (let step = 2; step <= STEPS; step++)
    flow = { name: step === STEPS ? "last" : "hop", queueName: "bench", data: {}, children: [flow] };
  return flow;
}

async function main([word, number]) {
  const size = Number(number);
  if (word === "worker") return work(size);
  const producer = new FlowProducer({ connection });
  await producer.waitUntilReady();
  const at = wall();
  if (word === "fan") await producer.add(fan(size));
  else if (word === "chains") {
    for (let first = 0; first < size; first += BATCH)
      await producer.addBulk(Array.from({ length: Math.min(BATCH, size - first) }, chain));
  } else throw new Error(`flow_bullmq_app does not know ${word}`);
  answer({ at });
  await producer.close();
}

main(process.argv.slice(2)).then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
