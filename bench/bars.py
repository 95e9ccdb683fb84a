"""Results as bars, in plain SVG."""

from __future__ import annotations

import statistics
from html import escape

from .harness import Case, Results, Scenario, number
from .table import heading

WIDTH, LEFT, RIGHT = 900, 330, 110
HEAD, BAR, STEP, FOOT = 40, 16, 24, 14
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 } .head { font-weight: 600 } .soft { fill: #656d76 }
.page { fill: #ffffff } .bar { fill: #afb8c1 } .ours { fill: #0969da } .range { stroke: #1f2328 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .soft { fill: #8d96a0 } .page { fill: #0d1117 }
  .bar { fill: #484f58 } .ours { fill: #2f81f7 } .range { stroke: #e6edf3 }
}
"""


def svg(scenarios: list[Scenario], results: Results) -> str:
    """One panel a scenario, of its first figure: a bar for the median, a line from smallest to largest."""
    parts: list[str] = []
    top = 10
    for scenario in scenarios:
        panel, height = _panel(scenario, results, top)
        parts += panel
        top += height
    size = f'viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}"'
    page = f'<style>{STYLE}</style>\n<rect class="page" width="{WIDTH}" height="{top}"/>'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', page, *parts, "</svg>\n"])


def _panel(scenario: Scenario, results: Results, top: int) -> tuple[list[str], int]:
    figure = scenario.figures[0]
    values = {case: results.of(scenario, case).values.get(figure.name, []) for case in scenario.cases}
    shown = {case: found for case, found in values.items() if found}
    longest = max((value for found in shown.values() for value in found), default=0)
    scale = (WIDTH - LEFT - RIGHT) / max(longest, 1e-9)
    title = escape(f"{scenario.name}: {heading(figure)}")
    parts = [f'<text class="head" x="12" y="{top + 24}">{title}</text>']
    for place, (case, found) in enumerate(shown.items()):
        parts.append(_bar(case, found, scale, top + HEAD + place * STEP))
    return parts, HEAD + len(shown) * STEP + FOOT


def _bar(case: Case, values: list[float], scale: float, top: int) -> str:
    median = statistics.median(values)
    width, low, high = (max(0.0, value * scale) for value in (median, min(values), max(values)))
    middle, base = top + BAR / 2, top + BAR - 4
    kind = "ours" if case.ours else "bar"
    return "\n".join(
        [
            f'<text x="{LEFT - 10}" y="{base}" text-anchor="end">{escape(case.system)}</text>',
            f'<rect class="{kind}" x="{LEFT}" y="{top}" width="{max(1, width):.1f}" height="{BAR}" rx="2"/>',
            f'<line class="range" x1="{LEFT + low:.1f}" x2="{LEFT + high:.1f}" y1="{middle}" y2="{middle}"/>',
            f'<text class="soft" x="{LEFT + high + 8:.1f}" y="{base}">{number(median)}</text>',
        ]
    )
