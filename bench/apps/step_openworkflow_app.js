// OpenWorkflow's side of the durable steps.
"use strict";
const { OpenWorkflow } = require("openworkflow");
const { BackendPostgres } = require("openworkflow/postgres");
const { URL, run, walk } = require("./step_peer.js");

async function opened() {
  const ow = new OpenWorkflow({ backend: await BackendPostgres.connect(URL) });
  const task = ow.defineWorkflow({ name: "walk" }, ({ input, step }) =>
    walk(input.steps, (name, act) => step.run({ name }, act)),
  );
  return { ow, task };
}

run({
  setup: opened,
  async walks(jobs, steps) {
    const { task } = await opened();
    for (let n = 0; n < jobs; n++) await task.run({ steps });
  },
  async work(size) {
    await (await opened()).ow.newWorker({ concurrency: size }).start();
  },
});
