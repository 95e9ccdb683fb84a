"""Files for operators: alert rules, a runbook for each alert, and a dashboard, checked against the metrics."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import yaml

from mainspring import Mainspring
from mainspring.cli import main
from mainspring.counters import CounterSnapshot
from mainspring.metrics.cluster import ClusterMetrics
from mainspring.metrics.process import families
from servers import prometheus_program

ROOT = Path(__file__).parent.parent.parent
OPS, RUNBOOKS = ROOT / "ops", ROOT / "docs" / "runbooks"
PAGES = sorted(RUNBOOKS.glob("*.md"))
DASHBOARD = json.loads((OPS / "grafana.json").read_text())
ALERTS = [rule for group in yaml.safe_load((OPS / "alerts.yml").read_text())["groups"] for rule in group["rules"]]
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}


def exposed() -> dict[str, set[str]]:
    """Every exposed sample name, with its labels."""

    async def look() -> list[Any]:
        return await ClusterMetrics(Mainspring("memory://")).families()

    every = [*asyncio.run(look()), *families(CounterSnapshot())]
    labels = {family.name: set(family._labelnames) for family in every}
    return {
        family.name + suffix: labels[family.name] | ({"le"} if suffix == "_bucket" else set())
        for family in every
        for suffix in SUFFIXES[family.type]
    }


EXPOSED = exposed()


def used(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Our metrics in an expression, with the labels that it uses."""
    for name, braces in re.findall(r"\b((?:mainspring|job)_[a-z_]+)(?:\{([^}]*)\})?", expression):
        yield name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", braces))


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in ALERTS)
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (variable["definition"] for variable in DASHBOARD["templating"]["list"] if "definition" in variable)


def promtool(*args: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [prometheus_program("promtool"), *args], cwd=OPS, input=given, capture_output=True, text=True, timeout=60
    )


# rules


def test_promtool_accepts_the_alert_rules() -> None:
    done = promtool("check", "rules", "alerts.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_fires_when_it_should_and_not_before() -> None:
    done = promtool("test", "rules", "alerts.test.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_test() -> None:
    tried = (OPS / "alerts.test.yml").read_text()
    assert [rule["alert"] for rule in ALERTS if rule["alert"] not in tried] == []


def test_alert_rules_and_dashboard_use_only_exposed_metrics() -> None:
    found = [(expression, list(used(expression))) for expression in sorted(set(expressions()))]
    assert [expression for expression, metrics in found if not metrics] == []
    assert [
        (expression, name, labels)
        for expression, metrics in found
        for name, labels in metrics
        if name not in EXPOSED or not labels <= EXPOSED[name]
    ] == []


def test_metrics_and_labels_are_found_in_an_expression() -> None:
    assert list(used('sum(rate(job_execution_total{job=~"$job",status="x"}[5m]))')) == [
        ("job_execution_total", {"job", "status"})
    ]
    assert {"mainspring_queue_jobs", "mainspring_store_seconds_bucket", "job_items_processed_total"} <= set(EXPOSED)


def test_prometheus_accepts_the_configuration_of_the_docs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    (config,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "prometheus.yml").write_text(config)
    done = promtool("check", "config", "--syntax-only", str(tmp_path / "prometheus.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_docs_name_every_metric() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    named = {re.sub(r"_(?:bucket|count|sum)$", "", name) for name in EXPOSED}
    assert (
        sorted(
            name for name in named if name not in page and f"`{name.removeprefix('mainspring_workers')}`" not in page
        )
        == []
    )


# runbooks


def test_each_alert_has_a_runbook_and_each_runbook_an_alert() -> None:
    linked = {Path(rule["annotations"]["runbook_url"]).name: rule["alert"] for rule in ALERTS}
    assert len(linked) == len(ALERTS)
    assert {page.name: page.read_text().partition("\n")[0] for page in PAGES} == {
        name: f"# {alert}" for name, alert in linked.items()
    }


def test_runbooks_have_the_sections_look_fix_and_when_to_ignore() -> None:
    headings = {page.stem: re.findall(r"^## (.*)$", page.read_text(), re.MULTILINE) for page in PAGES}
    assert [stem for stem, found in headings.items() if found != ["Look", "Fix", "When to ignore"]] == []


def test_runbooks_link_to_existing_files() -> None:
    links = [(page, link) for page in PAGES for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())]
    assert [(page.stem, link) for page, link in links if not (page.parent / link).exists()] == []


def commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        text = page.read_text()
        for words in re.findall(r"^\$ (mainspring .*)$", text, re.MULTILINE) + re.findall(
            r"`(mainspring [^`]*)`", text
        ):
            yield page.stem, words


def unknown_words(words: str) -> list[str]:
    """Words of a command line that name no command, and options that the command does not have."""
    command: click.Command = main
    context = click.Context(main)
    rest = shlex.split(words)[1:]
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        found = command.get_command(context, name)
        if found is None:
            return [name]
        command = found
    options = {option for parameter in command.params for option in parameter.opts}
    return [word for word in rest if word.startswith("--") and word not in options]


def test_runbooks_name_commands_and_options_that_exist() -> None:
    found = [(page, words, unknown_words(words)) for page, words in commands()]
    assert len(found) > 50
    assert [offence for offence in found if offence[2]] == []


# dashboard


def test_the_grafana_dashboard_can_be_imported() -> None:
    """The data source is a variable, panel ids are unique, and panels do not overlap."""
    panels = DASHBOARD["panels"]
    assert DASHBOARD["uid"] == "mainspring"
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"


def test_prometheus_accepts_the_expressions_of_the_grafana_dashboard() -> None:
    fill = {"$__rate_interval": "5m", "$job": ".*", "$queue": ".*"}
    asked = {re.sub(r"\$\w+", lambda name: fill[name[0]], one) for one in expressions() if "label_values(" not in one}
    rules = [{"record": f"panel{n}", "expr": one} for n, one in enumerate(sorted(asked))]
    given = yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]})
    done = promtool("check", "rules", "/dev/stdin", given=given)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout
