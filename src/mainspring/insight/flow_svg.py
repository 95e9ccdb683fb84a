"""The picture of a flow as SVG: light or dark as the reader prefers, with all texts escaped, and without a script."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise

from ..flow.layout import LaidOutEdge, LaidOutNode
from .flow_drawing import FlowDrawing, NodeText

# The widths of letters in the picture's font sizes, about.
_LABEL_PIXELS, _DETAIL_PIXELS = 7.6, 6.4
_PADDING_PIXELS = 26
# Characters that XML cannot have.
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Colours by state, in light and in dark.
_COLOURS = {
    "planned": ("#64748b", "#94a3b8"),
    "waiting": ("#7e22ce", "#d8b4fe"),
    "pending": ("#475569", "#a8b3c7"),
    "scheduled": ("#0369a1", "#7dd3fc"),
    "retrying": ("#b45309", "#fbbf24"),
    "running": ("#4338ca", "#a5b4fc"),
    "paused": ("#854d0e", "#fde047"),
    "completed": ("#15803d", "#86efac"),
    "dead": ("#b91c1c", "#fca5a5"),
    "not_run": ("#9d174d", "#f9a8d4"),
    "cancelled": ("#57534e", "#c4beb8"),
    "skipped": ("#78716c", "#a8a29e"),
}
_LIGHT = "--ground:#f6f7f9;--node:#ffffff;--line:#aab1c0;--text:#171a21;--muted:#5b6373"
_DARK = "--ground:#0f1115;--node:#171a21;--line:#4a5263;--text:#e8eaf0;--muted:#9aa3b5"
_STYLE = """
.ground{fill:var(--ground)}
.node rect{fill:var(--node);stroke:var(--line)}
.node path{fill:currentColor}
.fold rect{stroke-dasharray:5 3}
.dead rect,.running rect{stroke:currentColor}
.skipped rect,.not_run rect,.cancelled rect{stroke-dasharray:2 3}
text{font-family:ui-sans-serif,system-ui,"Segoe UI",Roboto,"Noto Sans",sans-serif;fill:var(--text)}
.label{font-size:13px;font-weight:600}
.detail{font-size:11px;fill:currentColor}
.edge{fill:none;stroke:var(--line);stroke-width:1.5}
.after,.when{stroke-dasharray:5 4}
.failure,.end{stroke-dasharray:2 3}
.said{font-size:10px;fill:var(--muted);paint-order:stroke;stroke:var(--ground);stroke-width:3px}
"""


def svg_of(drawing: FlowDrawing) -> str:
    """A whole SVG document."""
    layout = drawing.layout
    width, height = layout.width, layout.height
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{_escaped(drawing.title)}">',
        f"<title>{_escaped(drawing.title)}</title>",
        f"<style>{_style()}</style>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="context-stroke"/></marker></defs>',
        f'<rect class="ground" width="{width}" height="{height}"/>',
        *(f'<path class="edge {edge.kind}" d="{_path(edge)}" marker-end="url(#arrow)"/>' for edge in layout.edges),
        *(_said(edge, label) for edge, label in zip(layout.edges, drawing.labels, strict=True) if label),
    ]
    for node, text in zip(layout.nodes, drawing.texts, strict=True):
        lines += _node(drawing, node, text)
    return "\n".join([*lines, "</svg>", ""])


def _style() -> str:
    light = ";".join([_LIGHT, *(f"--{state}:{light}" for state, (light, _) in _COLOURS.items())])
    dark = ";".join([_DARK, *(f"--{state}:{dark}" for state, (_, dark) in _COLOURS.items())])
    colours = "\n".join(f".{state}{{color:var(--{state})}}" for state in _COLOURS)
    return f"\nsvg{{{light}}}\n@media(prefers-color-scheme:dark){{svg{{{dark}}}}}{_STYLE}{colours}\n"


def _node(drawing: FlowDrawing, node: LaidOutNode, text: NodeText) -> Iterator[str]:
    x, y, width, height = node.x, node.y, node.width, node.height
    fold = " fold" if len(node.steps) > 1 else ""
    yield f'<g class="node {text.state or "planned"}{fold}"><title>{_escaped(drawing.hover(node, text))}</title>'
    yield f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7"/>'
    yield f'<path d="M{x} {y + 7}q0 -7 7 -7v{height}q-7 0 -7 -7z"/>'
    label, middle = _fitting(text.label, width, _LABEL_PIXELS), y + height // 2
    yield f'<text class="label" x="{x + 16}" y="{middle - 3 if text.detail else middle + 5}">{_escaped(label)}</text>'
    if text.detail:
        detail = _fitting(text.detail, width, _DETAIL_PIXELS)
        yield f'<text class="detail" x="{x + 16}" y="{middle + 14}">{_escaped(detail)}</text>'
    yield "</g>"


def _fitting(text: str, width: int, character_pixels: float) -> str:
    room = int((width - _PADDING_PIXELS) / character_pixels)
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _said(edge: LaidOutEdge, label: str) -> str:
    (x0, y0), (x1, y1) = edge.points[-2:]
    x, y = (x0 + x1) // 2, (y0 + y1) // 2 - 4
    short = "when" if edge.kind == "when" else label
    return f'<text class="said" x="{x}" y="{y}" text-anchor="middle">{_escaped(short)}</text>'


def _path(edge: LaidOutEdge) -> str:
    """A line that leaves and enters each point horizontally."""
    points: Sequence[tuple[int, int]] = edge.points
    parts = [f"M{points[0][0]} {points[0][1]}"]
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (x0 + x1) // 2
        parts.append(f"H{x1}" if y0 == y1 else f"C{middle} {y0} {middle} {y1} {x1} {y1}")
    return "".join(parts)


def _escaped(text: str) -> str:
    return escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text))
