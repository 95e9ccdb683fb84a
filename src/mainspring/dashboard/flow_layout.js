// Flows as data: what their steps are doing, and where things are drawn. Pure functions.

const ENDED = new Set(["completed", "dead", "not_run", "cancelled", "skipped"]);
/** The states of steps, the most urgent first: a node with several steps shows the first that one of them has. */
const URGENCY = [
  "dead", "retrying", "running", "paused", "pending", "scheduled", "waiting", "not_run", "cancelled", "completed",
  "skipped",
];

export const hasEnded = (step) => ENDED.has(step.status);
const ms = (at) => Date.parse(at);

/** The state of several steps together, and how many have each: ["running", [["running", 2], ["completed", 9]]]. */
export function summarize(steps) {
  const numbers = new Map();
  for (const { status } of steps) numbers.set(status, (numbers.get(status) ?? 0) + 1);
  const found = URGENCY.filter((state) => numbers.has(state));
  return [found[0], found.map((state) => [state, numbers.get(state)])];
}

/** The number of ended items of a map. */
export const endedItems = ({ completed, dead, cancelled }) => completed + dead + cancelled;

/**
 * The spans of a flow's steps: [{step, released, started, until, about, open}], those with a time, in milliseconds. A
 * map has no times of its own: `about` says that they are those of its neighbours.
 */
export function stepSpans(flow, now) {
  const begin = ms(flow.planned_at), end = flow.ended_at ? ms(flow.ended_at) : now;
  const spans = new Map();
  const next = new Map(); // when the first step that needs it was released
  for (const step of flow.steps) {
    if (!step.released_at) continue;
    for (const name of step.needs) next.set(name, Math.min(next.get(name) ?? Infinity, ms(step.released_at)));
  }
  for (const step of flow.steps) {
    const open = !hasEnded(step);
    if (step.items) {
      const released = Math.max(begin, ...step.needs.map((name) => spans.get(name)?.until ?? begin));
      const until = open ? end : Math.max(released, Math.min(next.get(step.name) ?? end, end));
      spans.set(step.name, { step, released, started: released, until, about: true, open });
    } else if (step.released_at) {
      const released = ms(step.released_at);
      // A flow in a step runs twice, to be planned and to be concluded, and works in between.
      const start = step.kind === "flow" ? released : step.started_at && ms(step.started_at);
      const until = step.finished_at ? ms(step.finished_at) : end;
      spans.set(step.name, { step, released, started: start ?? until, until, about: false, open });
    }
  }
  return [...spans.values()];
}

/** The path of an edge: lines through its points, in curves. */
export function edgePath(points) {
  let path = `M${points[0].join(" ")}`;
  for (let n = 1; n < points.length; n += 1) {
    const [[x0, y0], [x, y]] = [points[n - 1], points[n]];
    const middle = (x0 + x) / 2;
    path += y === y0 ? `H${x}` : `C${middle} ${y0} ${middle} ${y} ${x} ${y}`;
  }
  return path;
}

/** The head of an edge's arrow. */
export const arrowHead = (points) => `M${points.at(-1).join(" ")}l-7 -4v8z`;

const DIRECTIONS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };

/** The nearest node in the direction of an arrow key; undefined if there is none. */
export function neighbour(nodes, from, key) {
  if (!(key in DIRECTIONS)) return undefined;
  const [dx, dy] = DIRECTIONS[key];
  const centre = (node) => [node.x + node.width / 2, node.y + node.height / 2];
  const [x, y] = centre(from);
  let found, least = Infinity;
  for (const node of nodes) {
    const [toX, toY] = centre(node);
    const along = (toX - x) * dx + (toY - y) * dy, across = Math.abs((toX - x) * dy) + Math.abs((toY - y) * dx);
    if (along < 8 || along + 2 * across >= least) continue;
    [found, least] = [node, along + 2 * across];
  }
  return found;
}
