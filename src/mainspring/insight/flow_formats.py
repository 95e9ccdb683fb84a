"""The formats of a flow's picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from .flow_drawing import FlowDrawing
from .flow_mermaid import mermaid_of
from .flow_svg import svg_of

PictureFormat = Literal["svg", "mermaid"]
FORMATS: Mapping[PictureFormat, Callable[[FlowDrawing], str]] = {"svg": svg_of, "mermaid": mermaid_of}
