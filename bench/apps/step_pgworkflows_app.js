// pg-workflows' side of the durable steps.
"use strict";
const { WorkflowEngine, workflow } = require("pg-workflows");
const { URL, run, walk } = require("./step_peer.js");

const task = workflow("walk", ({ input, step }) => walk(input.steps, (name, act) => step.run(name, act)));
const quiet = { log() {}, error: console.error };
const engine = new WorkflowEngine({ connectionString: URL, workflows: [task], logger: quiet });

run({
  setup: () => engine.start(false),
  async walks(jobs, steps) {
    await engine.start(false);
    for (let n = 0; n < jobs; n++) await engine.startWorkflow({ workflowId: "walk", input: { steps } });
  },
  async work(size) {
    process.env.WORKFLOW_RUN_WORKERS = String(size);
    await engine.start();
  },
});
