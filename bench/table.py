"""Results as tables, in Markdown that also reads well on a terminal."""

from __future__ import annotations

from math import isnan
from textwrap import shorten

from .harness import Case, Figure, Results, Scenario, number


def tables(scenarios: list[Scenario], results: Results) -> str:
    return "\n\n".join(f"## {s.name}\n\n{s.question}\n\n{_table(s, results)}" for s in scenarios)


def heading(figure: Figure) -> str:
    return f"{figure.name}, {figure.unit} ({'more' if figure.more_is_better else 'less'} is better)"


def _table(scenario: Scenario, results: Results) -> str:
    heads = ["system", *map(heading, scenario.figures), *(f"÷ {name}" for name in scenario.references)]
    rows = [heads, *(_row(scenario, case, results) for case in scenario.cases)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [" | ".join(map(str.ljust, row, widths)) for row in rows]
    lines.insert(1, " | ".join("-" * width for width in widths))
    return "\n".join(f"| {line} |" for line in lines)


def _row(scenario: Scenario, case: Case, results: Results) -> list[str]:
    series = results.of(scenario, case)
    if series.failure:
        blank = [""] * (len(scenario.figures) + len(scenario.references) - 1)
        return [case.system, shorten(f"failed: {series.failure}".replace("|", "/"), 100), *blank]
    cells = [_cell(series.values[figure.name], series.median(figure)) for figure in scenario.figures]
    return [case.system, *cells, *(_ratios(scenario, case, name, results) for name in scenario.references)]


def _cell(values: list[float], median: float) -> str:
    if isnan(median):
        return number(median)
    return f"{number(median)} [{number(min(values))} .. {number(max(values))}]"


def _ratios(scenario: Scenario, case: Case, reference: str, results: Results) -> str:
    """One ratio a figure."""
    ratios = []
    for figure in scenario.figures:
        known = results.reference(scenario, reference, figure)
        ratios.append(_ratio(results.of(scenario, case).median(figure) / known) if known else "–")
    return " / ".join(ratios)


def _ratio(value: float) -> str:
    return number(value) if isnan(value) else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"
