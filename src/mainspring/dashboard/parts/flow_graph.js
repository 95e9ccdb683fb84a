// The graph of a flow, as the server has laid it out: boxes are buttons, arrow keys go from one to the next.
import { arrowHead, edgePath, endedItems, neighbour, summarize } from "../flow_layout.js";
import { count } from "../format.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../html.js";
import { Icon } from "./icons.js";
import { foldedName, stateWord, STEP_MEANING, StepNote } from "./step_state.js";

const ZOOMS = [0.35, 0.5, 0.7, 0.85, 1, 1.25];
const MIN_FIT_ZOOM = 0.7; // smaller texts are hard to read: a wider graph scrolls
/** kind of an edge: what it means. */
const KINDS = {
  value: "passes a value", when: "decides", after: "comes before", failure: "on failure", end: "at the end",
};

/** `steps` is a Map by name; `chosen` is the name of a step, or the id of a node with several. */
export function FlowGraph({ graph, steps, chosen, onChoose }) {
  const frame = useRef();
  const [zoom, setZoom] = useState(null);
  useLayoutEffect(() => {
    setZoom(Math.min(1, Math.max(MIN_FIT_ZOOM, frame.current.clientWidth / graph.width)));
  }, []);
  // What was chosen, or at first what needs attention: a large graph has it somewhere outside of the frame.
  useEffect(() => {
    const found = chosen ? ["[aria-pressed=true]"] : [".state-dead", ".state-retrying", ".state-running"];
    const element = found.map((one) => frame.current.querySelector(`.flow-node${one}`)).find(Boolean);
    if (element && zoom !== null) reveal(frame.current, element);
  }, [chosen, zoom === null]);
  const nodes = new Map(graph.nodes.map((node) => [node.id, node]));
  const current = nodes.get(chosen) ?? graph.nodes.find((node) => node.steps.includes(chosen));
  const drag = useDrag(frame);
  const onKeyDown = (event) => {
    const node = nodes.get(event.target.dataset.node);
    const to = node && neighbour(graph.nodes, node, event.key);
    if (!to) return;
    event.preventDefault();
    frame.current.querySelector(`[data-node="${CSS.escape(to.id)}"]`).focus();
  };
  const scale = zoom ?? 1;
  return html`<div class="flow-graph">
    <div class="flow-graph-frame" ref=${frame} role="group" aria-label="Graph of the steps" ...${drag}
        onKeyDown=${onKeyDown}>
      <div style=${boxOf({ width: graph.width * scale, height: graph.height * scale })}><div class="flow-graph-sheet"
          style=${{ ...boxOf({ width: graph.width, height: graph.height }), transform: `scale(${scale})` }}>
        <${Edges} graph=${graph} nodes=${nodes} steps=${steps} />
        ${graph.nodes.map((node, n) => html`<${Node} key=${node.id} node=${node} steps=${steps}
          chosen=${node === current} reached=${node === (current ?? graph.nodes[0])} onChoose=${onChoose} />`)}
      </div></div>
    </div>
    <div class="flow-graph-line"><${Legend} edges=${graph.edges} />
      <${Zoom} zoom=${zoom} onZoom=${setZoom} /></div>
  </div>`;
}

/** Numbers as pixels, for a style. */
const boxOf = (box) => Object.fromEntries(Object.entries(box).map(([name, pixels]) => [name, `${pixels}px`]));

/** Scrolls the frame, and not the page, so that the element is seen; to its middle if it was not. */
function reveal(frame, element) {
  const outer = frame.getBoundingClientRect(), inner = element.getBoundingClientRect();
  if (inner.left < outer.left || inner.right > outer.right) {
    frame.scrollLeft += inner.left - outer.left - (outer.width - inner.width) / 2;
  }
  if (inner.top < outer.top || inner.bottom > outer.bottom) {
    frame.scrollTop += inner.top - outer.top - (outer.height - inner.height) / 2;
  }
}

/** Handlers that scroll an element while the mouse drags its ground. */
function useDrag(frame) {
  const from = useRef(null);
  return {
    onPointerDown: (event) => {
      if (event.pointerType !== "mouse" || event.button || event.target.closest("button")) return;
      const { scrollLeft, scrollTop } = frame.current;
      from.current = { x: event.clientX + scrollLeft, y: event.clientY + scrollTop };
      frame.current.setPointerCapture(event.pointerId);
    },
    onPointerMove: (event) => {
      if (!from.current) return;
      frame.current.scrollTo(from.current.x - event.clientX, from.current.y - event.clientY);
    },
    onPointerUp: () => void (from.current = null),
    onPointerCancel: () => void (from.current = null),
  };
}

function Zoom({ zoom, onZoom }) {
  const turn = (to, words, sign) => html`<button type="button" class="quiet" aria-label=${words} title=${words}
    disabled=${!to} onClick=${() => onZoom(to)}>${sign}</button>`;
  return html`<span class="row">${turn(ZOOMS.findLast((one) => one < zoom), "Zoom out", "−")}
    <span class="muted number">${Math.round(100 * (zoom ?? 1))} %</span>
    ${turn(ZOOMS.find((one) => one > zoom), "Zoom in", "+")}</span>`;
}

function Legend({ edges }) {
  const kinds = Object.keys(KINDS).filter((kind) => edges.some((edge) => edge.kind === kind));
  return html`<p class="flow-legend">${kinds.map((kind) => html`<span key=${kind}>
    <svg width="26" height="8" aria-hidden="true"><path class=${`flow-edge flow-edge-${kind}`} d="M1 4H25" /></svg>
    ${KINDS[kind]}</span>`)}</p>`;
}

/** Edges of one look are one path, so that a large graph has few elements. Those with a text have one of their own. */
function Edges({ graph, nodes, steps }) {
  const looks = new Map();
  const told = [];
  for (const edge of graph.edges) {
    const target = steps.get(nodes.get(edge.to).steps[0]);
    const off = target?.status === "skipped" || target?.status === "not_run";
    const look = `flow-edge flow-edge-${edge.kind} ${off ? "flow-edge-off" : ""}`;
    const reason = off ? target.reason : edge.label;
    if (reason) told.push({ edge, look, reason, off });
    else if (looks.has(look)) looks.get(look).push(edge.points);
    else looks.set(look, [edge.points]);
  }
  const draw = (look, some) => html`<path class=${look} d=${some.map(edgePath).join("")} />
    <path class=${`${look} flow-edge-head`} d=${some.map(arrowHead).join("")} />`;
  return html`<svg width=${graph.width} height=${graph.height} aria-hidden="true">
    ${[...looks].map(([look, some]) => draw(look, some))}
    ${told.map(({ edge, look, reason, off }) => html`<g key=${`${edge.from} ${edge.to}`}>
      <title>${reason}</title>${draw(look, [edge.points])}
      <path class="flow-edge-touch" d=${edgePath(edge.points)} />
      ${off && html`<${OffMark} at=${edge.points.at(-1)} />`}</g>`)}</svg>`;
}

/** The cross on an edge that led nowhere. */
const OffMark = ({ at: [x, y] }) =>
  html`<path class="flow-edge-cross" d=${`M${x - 22} ${y - 5}l10 10M${x - 12} ${y - 5}l-10 10`} />`;

function Node({ node, steps, chosen, reached, onChoose }) {
  const inside = node.steps.map((name) => steps.get(name)).filter(Boolean);
  const [state, numbers] = summarize(inside);
  const [step] = inside;
  const several = node.steps.length > 1;
  const place = boxOf({ left: node.x, top: node.y, width: node.width, height: node.height });
  const items = !several && step.items;
  const words = several ? foldedName(node) : node.id;
  const reason = several ? numbers.map(([one, n]) => `${count(n)} ${stateWord(one)}`).join(", ") : step.reason;
  return html`<button type="button" class=${`flow-node state-${state} ${several ? "flow-node-fold" : ""}`}
      style=${place} data-node=${node.id} aria-pressed=${chosen} tabindex=${reached ? 0 : -1}
      title=${`${words}: ${stateWord(state)}${reason ? `\n${reason}` : `, ${STEP_MEANING[state]}`}`}
      onClick=${() => onChoose(node.id)}>
    <span class="flow-node-name"><${Icon} name=${state} size=${14} /><span>${words}</span></span>
    <span class="flow-node-more"><span class="unseen">${stateWord(state)} </span>
      ${several ? reason : html`<${StepNote} step=${step} />`}</span>
    ${items && items.made > 0 && html`<i class="flow-node-bar"
      style=${{ width: `${(100 * endedItems(items)) / Math.max(items.made, items.total ?? 0)}%` }}></i>`}
  </button>`;
}
