"""The names that users rely on: what they import, type, request, scrape, subscribe to and set.

Each list is a file of tests/names, with one name in a line, so that a change of it is seen in review.
`MAINSPRING_TEST_NAMES=write .venv/bin/python -m pytest tests/test_public_names.py` writes them again.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import tomllib
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import click
import msgspec
import pytest

import mainspring
from mainspring import control, errors, events
from mainspring.api.openapi import openapi_document
from mainspring.api.service import litestar_app
from mainspring.cli import COMMANDS, main
from mainspring.config import Settings
from mainspring.control.bulk_page import BulkPage
from mainspring.control.schedule_bulk import ScheduleBulkPage
from mainspring.control.triggers import TriggerOptions
from mainspring.control.webhooks import WebhookChanges, WebhookOptions
from mainspring.feed.event import TYPES
from mainspring.metrics.process import KINDS
from mainspring.schedule.options import ScheduleOptions
from mainspring.task.options import CollectingOptions, FlowOptions, TaskOptions, UsingOptions
from mainspring.webhook.record import EVENTS, EXTRAS

ROOT = Path(__file__).parent.parent
LISTS = ROOT / "tests" / "names"
WRITE = os.environ.get("MAINSPRING_TEST_NAMES") == "write"
TEXTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
TEXTS += sorted((ROOT / "docs").rglob("*.md")) + sorted((ROOT / "examples").rglob("*.py"))
HOW = "MAINSPRING_TEST_NAMES=write .venv/bin/python -m pytest tests/test_public_names.py"


def listed(name: str) -> list[str]:
    return (LISTS / f"{name}.txt").read_text(encoding="utf-8").splitlines()


def check(name: str, found: Iterable[str]) -> None:
    """Checks that the names equal those of the list."""
    lines = sorted(set(found))
    assert len(lines) > 5, "the names are not found any more"
    if WRITE:
        (LISTS / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    gone, new = sorted(set(listed(name)) - set(lines)), sorted(set(lines) - set(listed(name)))
    assert not gone, f"names that users rely on are gone: {gone}; keep them as aliases, or, if that is meant: {HOW}"
    assert not new, f"new names: {new}; if users may rely on them from now on: {HOW}"


# imports

_IMPORT = re.compile(r"^[ >]*from (mainspring[\w.]*) import (\([^)]*\)|[^\n(]+)", re.MULTILINE)
_DOTTED = re.compile(r"\bmainspring(?:\.[A-Za-z_]\w*)+")
# Files, loggers and tasks that have the name of a module.
_NO_MODULES = {"mainspring.db", "mainspring.key", "mainspring.service", "mainspring.task", "mainspring.webhook"}


def documented() -> Iterator[str]:
    """What the documentation imports, or names by its dotted path."""
    for path in TEXTS:
        text = path.read_text(encoding="utf-8")
        for module, names in _IMPORT.findall(text):
            for name in re.sub(r"#[^\n]*", "", names).strip("()").split(","):
                if word := name.partition(" as ")[0].strip():
                    yield f"{module}:{word}"
        for dotted in _DOTTED.findall(text):
            if dotted not in _NO_MODULES and resolved(dotted):
                yield dotted


def resolved(dotted: str) -> bool:
    """Whether it names a module, or an attribute of one; attributes of attributes included."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def declared() -> Iterator[str]:
    """The __all__ of every module that the documentation imports from; others are internal."""
    for module in {path.partition(":")[0] for path in documented() if ":" in path}:
        for name in getattr(importlib.import_module(module), "__all__", ()):
            yield f"{module}:{name}"


# It is made of the settings of a Django project; the tests in django_project/ import it.
OF_A_PROJECT = "mainspring.django:app"


def imports(path: str) -> bool:
    if path == OF_A_PROJECT:
        return True
    module, _, name = path.partition(":")
    if not name:
        return resolved(module)
    return hasattr(importlib.import_module(module), name) or resolved(f"{module}.{name}")


def test_every_import_path_that_was_ever_documented_works() -> None:
    """A path stays in the list when its module is renamed: the old one works on, with a DeprecationWarning."""
    found = {*documented(), *declared()}
    if WRITE:
        kept = listed("imports") if (LISTS / "imports.txt").exists() else []
        lines = sorted(found | set(kept))
        (LISTS / "imports.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    known = listed("imports")
    assert sorted(found - set(known)) == [], f"documented, and not in tests/names/imports.txt: {HOW}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        broken = [path for path in known if not imports(path)]
    assert broken == [], "these import paths are documented, and do not work: keep an alias for each"


def test_import_paths_in_the_documentation_are_found() -> None:
    found = set(documented())
    assert {"mainspring:Mainspring", "mainspring.events:JobEnded", "mainspring.testing:VirtualClock"} <= found


# attributes of what is imported


def attributes() -> Iterator[str]:
    """Fields, methods with their parameters, and properties of every public class."""
    facades = [(f"app.{name}", cls) for name, cls in FACADES.items()]
    for title, cls in [(name, getattr(mainspring, name)) for name in mainspring.__all__] + facades:
        if not inspect.isclass(cls):
            yield f"{title}{_parameters(cls)}" if callable(cls) else title
            continue
        yield title
        for name in dir(cls):
            if not name.startswith("_") and not _is_inherited(cls, name):
                yield f"{title}.{name}{_parameters(getattr(cls, name))}"


FACADES: dict[str, type] = {
    "audit": control.Audit, "dead": control.Dead, "executions": control.Executions, "jobs": control.Jobs,
    "keys": control.Keys, "queues": control.Queues, "schedules": control.Schedules, "triggers": control.Triggers,
    "webhooks": control.Webhooks, "workers": control.Workers,
}  # fmt: skip


def options() -> Iterator[str]:
    """Keywords of calls that take them all together."""
    yield from (f"@app.task({name}=)" for name in (*TaskOptions.__annotations__, *CollectingOptions.__annotations__))
    yield from (f"@app.flow({name}=)" for name in FlowOptions.__annotations__)
    for call, cls in OPTIONS.items():
        yield from (f"{call}({name}=)" for name in get_type_hints(cls))


OPTIONS: dict[str, type] = {
    "task.using": UsingOptions, "app.schedule": ScheduleOptions, "app.jobs.…": BulkPage,
    "app.schedules.many.…": ScheduleBulkPage,
    "app.webhooks.create": WebhookOptions, "app.webhooks.update": WebhookChanges,
    "app.triggers.create": TriggerOptions,
}  # fmt: skip


def test_options_of_calls_are_pinned() -> None:
    check("options", options())


def _is_inherited(cls: type, name: str) -> bool:
    """From outside of Mainspring."""
    owner = next(one for one in cls.__mro__ if name in vars(one))
    return not owner.__module__.startswith("mainspring")


def _parameters(value: Any) -> str:
    if not inspect.isroutine(value):
        return ""
    try:
        found = inspect.signature(value).parameters.values()
    except ValueError:
        return "()"
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    words = [marks.get(one.kind, "") + one.name for one in found if one.name != "self"]
    return f"({', '.join(words)})"


def test_attributes_of_public_classes_are_pinned() -> None:
    check("attributes", attributes())


# command line


def commands(command: click.Command, path: str = "mainspring") -> Iterator[str]:
    """Every command with its arguments and options."""
    yield path
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield from (f"{path} {word}" for word in (*parameter.opts, *parameter.secondary_opts))
        else:
            yield f"{path} {(parameter.name or '').upper()}"
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            sub = command.get_command(context, name)
            assert sub is not None
            yield from commands(sub, f"{path} {name}")


def test_commands_and_options_are_pinned() -> None:
    assert set(COMMANDS) <= {line.split()[1] for line in commands(main) if line.count(" ") == 1}
    check("commands", commands(main))


# API


def api() -> Iterator[str]:
    """Routes with their parameters, and the fields of every schema."""
    spec = openapi_document(litestar_app())
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            route = f"{method.upper()} {path}"
            yield route
            yield from (f"{route} {one['in']}:{one['name']}" for one in operation.get("parameters", ()))
    for name, schema in spec["components"]["schemas"].items():
        yield from _fields(name, schema)


def _fields(name: str, schema: dict[str, Any]) -> Iterator[str]:
    for field in schema.get("properties", ()):
        yield f"{name}.{field}"
    for value in schema.get("enum", ()):
        yield f"{name} = {value}"
    for part in (*schema.get("oneOf", ()), *schema.get("anyOf", ()), *schema.get("allOf", ())):
        yield from _fields(name, part)


def test_routes_and_fields_of_the_api_are_pinned() -> None:
    check("api", api())


# events


def event_names() -> Iterator[str]:
    yield from (f"feed {name}" for name in TYPES)
    yield from (f"webhook {name}" for name in (*EVENTS, "webhook.test"))
    yield from (f"webhook include {name}" for name in EXTRAS)
    for name, cls in vars(events).items():
        if inspect.isclass(cls) and issubclass(cls, events.Event) and not name.startswith("_"):
            yield name
            yield from (f"{name}.{field.name}" for field in msgspec.structs.fields(cls))


def test_event_names_are_pinned() -> None:
    check("events", event_names())


def test_error_names_are_pinned() -> None:
    names = [name for name, one in vars(errors).items() if inspect.isclass(one) and issubclass(one, BaseException)]
    check("errors", names)


# settings and entry points


def settings() -> Iterator[str]:
    for field in msgspec.structs.fields(Settings):
        yield field.name
        yield f"MAINSPRING_{field.name.upper()}"
        yield from (f"{field.name} = {value}" for value in get_args(field.type) if isinstance(value, str))
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    yield from re.findall(r"\bMAINSPRING_[A-Z_]+[A-Z]\b", source)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    yield from (f"command {name} = {value}" for name, value in project["scripts"].items())
    for group, points in project["entry-points"].items():
        yield from (f"entry point {group} {name} = {value}" for name, value in points.items())
    yield from (f"extra {name}" for name in project["optional-dependencies"])
    yield from (f"logger {name}" for name in re.findall(r'getLogger\("([\w.]+)"\)', source))


def test_settings_and_entry_points_are_pinned() -> None:
    check("settings", settings())


# metrics

_METRIC = re.compile(r'"((?:mainspring|job|indexing)_[a-z_]+)"')


def metrics() -> Iterator[str]:
    """Names that stand in modules about metrics, and labels where they are declared."""
    folder = Path(mainspring.__file__).parent
    for path in [*folder.glob("metrics/*.py"), *folder.glob("middleware/*.py"), folder / "survived_errors.py"]:
        if "metric" in (text := path.read_text(encoding="utf-8")).lower():
            yield from (name for name in _METRIC.findall(text) if not name.startswith("job_id"))
    for name, kind in KINDS.items():
        yield from (f"{name} {label}" for label in kind.labels)


def test_metric_names_are_pinned() -> None:
    check("metrics", metrics())


def tracing() -> Iterator[str]:
    """Attributes of spans, by which people search their traces."""
    for path in Path(mainspring.__file__).parent.rglob("tracing.py"):
        yield from re.findall(r'"((?:mainspring|messaging|error)\.[a-z_.]+)"', path.read_text(encoding="utf-8"))
        yield from re.findall(r'"(traceparent|tracestate)"', path.read_text(encoding="utf-8"))


def test_attributes_of_spans_are_pinned() -> None:
    check("tracing", tracing())


def test_every_list_of_names_is_checked() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert [path.stem for path in LISTS.glob("*.txt") if f'"{path.stem}"' not in source] == []


@pytest.mark.parametrize(("former", "now"), [("Entry", "AuditEntry"), ("Trail", "AuditFilter"), ("acting", "act_as")])
def test_former_name_warns_and_works(former: str, now: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"mainspring.{former} is mainspring.{now} now"):
        assert getattr(mainspring, former) is getattr(mainspring, now)
