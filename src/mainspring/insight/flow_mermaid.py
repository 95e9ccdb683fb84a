"""The picture of a flow as Mermaid text, for pages that draw it themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..flow.layout import EdgeKind
from .flow_drawing import FlowDrawing, NodeText

# Mermaid reads an entity as #NUMBER; in a text between quotation marks. A letter or digit needs none.
_SPECIAL = re.compile(r"[^\w ,.…:/()=-]|_(?=_)")
_ARROWS: Mapping[EdgeKind, str] = {"value": "-->", "after": "-.->", "when": "-.->", "failure": "-.->", "end": "-.->"}
_STYLES: Mapping[str, str] = {
    "running": "stroke:#6366f1,stroke-width:2px",
    "retrying": "stroke:#d97706,stroke-width:2px",
    "completed": "stroke:#16a34a,stroke-width:2px",
    "dead": "stroke:#dc2626,stroke-width:3px",
    "not_run": "stroke:#be185d,stroke-dasharray:3 3",
    "cancelled": "stroke:#78716c,stroke-dasharray:3 3",
    "skipped": "stroke:#a8a29e,stroke-dasharray:3 3",
}


def mermaid_of(drawing: FlowDrawing) -> str:
    """A whole Mermaid flowchart."""
    layout = drawing.layout
    lines = ["flowchart LR", *(f"  n{n}{_box(text)}" for n, text in enumerate(drawing.texts))]
    for edge, label in zip(layout.edges, drawing.labels, strict=True):
        said = f'|"{_escaped(label)}"|' if label else ""
        lines.append(f"  n{edge.source} {_ARROWS[edge.kind]}{said} n{edge.target}")
    for state, style in _STYLES.items():
        if nodes := [f"n{n}" for n, text in enumerate(drawing.texts) if text.state == state]:
            lines += (f"  classDef {state} {style}", f"  class {','.join(nodes)} {state}")
    return "\n".join([*lines, ""])


def _box(text: NodeText) -> str:
    detail = f"<br/>{_escaped(text.detail)}" if text.detail else ""
    return f'["{_escaped(text.label)}{detail}"]'


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", text)
