"""Imports: what each step of a process loads, by names of modules in a fresh interpreter; and the lazy names."""

from __future__ import annotations

import ast
import importlib
import pickle
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread
from types import ModuleType

import pytest

import mainspring
from mainspring import control, errors, logs
from mainspring.lazy import lazy_property
from source_tree import SOURCE, tree_of

DECLARING = """
from mainspring import Mainspring
app = Mainspring("memory://")

@app.task
async def double(number: int) -> int:
    if number < 0:
        raise ValueError("x" * 10_000)
    return 2 * number
"""
# Heavy modules of Python that neither declaring nor enqueueing needs. asyncio comes with the engine.
HEAVY = {"email", "http", "importlib.metadata", "importlib.resources", "ipaddress", "json", "pathlib", "urllib.parse"}
# What only workers, operators, webhooks, the feed or the API's clients need.
FOR_OTHERS = {
    "api", "cli", "client", "control.jobs", "executor", "feed", "health", "insight", "leader", "logs.formatters",
    "mask", "supervisor", "testing", "webhook", "worker",
}  # fmt: skip


def loaded_by(code: str) -> set[str]:
    """The modules that an interpreter has loaded when the code ends; those of Mainspring without its name."""
    command = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return {name.removeprefix("mainspring.") for name in done.stdout.split()}


def ours(modules: set[str]) -> set[str]:
    found = {name for name in modules if (SOURCE / f"{name.replace('.', '/')}.py").exists()}
    return found | {name for name in modules if (SOURCE / name.replace(".", "/") / "__init__.py").exists()}


# what is loaded when


def test_import_of_the_package_loads_almost_nothing() -> None:
    loaded = loaded_by("import mainspring")
    assert ours(loaded) == {"errors", "lazy"}
    assert loaded & {"asyncio", "msgspec", "inspect"} == set()


def test_import_of_the_app_class_loads_what_declares_tasks() -> None:
    loaded = loaded_by("from mainspring import Mainspring")
    assert loaded & (HEAVY | FOR_OTHERS) == set()
    assert loaded & {"asyncio", "hashlib", "socket", "ssl", "subprocess", "zoneinfo"} == set()
    assert loaded & {"engine", "events", "schedule", "stores", "trigger"} == set()
    assert len(ours(loaded)) <= 28, sorted(ours(loaded))


@pytest.mark.parametrize("url", ["sqlite:///jobs.db", "redis://127.0.0.1/0"])
def test_store_loads_no_module_that_an_idle_worker_can_do_without(url: str) -> None:
    loaded = loaded_by(
        f"from mainspring import Mainspring; Mainspring({url!r})._engine; import mainspring.worker.worker"
    )
    assert loaded & {"hashlib", "importlib.resources", "lzma", "shutil", "tempfile", "zipfile"} == set()


IDLE_WORKER = """
import asyncio
async def main():
    async with app, app.worker():
        await asyncio.sleep(0)
asyncio.run(main())
"""
# What only flows, operators, leaders and schedules by cron need.
NOT_FOR_IDLE_WORKERS = {
    "control.queues", "control.step_jobs", "flow.conditions", "flow.graph", "flow.moves", "flow.row_edit",
    "insight.flow_why", "insight.why", "leader", "schedule.balance.distribution", "stores.caller_connection",
    "stores.rules.flows", "trigger.cron_description", "worker.flow_runs",
}  # fmt: skip


def test_idle_worker_on_sqlite_loads_no_module_that_it_can_do_without(tmp_path: Path) -> None:
    loaded = loaded_by(DECLARING.replace("memory://", f"sqlite:///{tmp_path}/jobs.db") + IDLE_WORKER)
    assert "worker.flow_tasks" in loaded
    assert loaded & NOT_FOR_IDLE_WORKERS == set()


def test_app_with_a_task_loads_its_engine_and_its_store() -> None:
    loaded = loaded_by(DECLARING)
    assert loaded & (HEAVY | FOR_OTHERS) == set()
    assert {"engine", "stores.memory.store"} <= loaded


def imported_by(steps: str, *, beside: str = "") -> set[str]:
    """What steps on an open app import; `beside` is done before, and `made` is what it made."""
    lines = "\n".join(f"        {line}" for line in steps.splitlines())
    code = f"""{DECLARING}
import asyncio, sys
async def main():
    async with app:
        made = {beside or None}
        before = set(sys.modules)
{lines}
        sys.stdout.write(" ".join(["imported:", *sorted(set(sys.modules) - before)]))
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.partition("imported:")[2].split())


def test_open_app_imports_nothing_to_enqueue_and_to_read_a_job() -> None:
    steps = "handle = await double.using(unique_key='a').enqueue(1)\nassert (await handle.job()).task == 'double'"
    assert imported_by(steps) == set()


def test_worker_imports_nothing_while_it_runs_jobs() -> None:
    steps = """async with made:
    assert await (await double.enqueue(2)).result(10) == 4
    try:
        await (await double.using(max_retries=0).enqueue(-1)).result(10)
    except Exception as error:
        assert "ValueError" in str(error)"""
    assert ours({name.removeprefix("mainspring.") for name in imported_by(steps, beside="app.worker()")}) == set()


def test_imports_on_an_open_app_are_seen() -> None:
    assert "mainspring.control.webhooks" in imported_by("app.webhooks")


# names that are imported at their first use


@pytest.mark.parametrize("package", [mainspring, control, logs], ids=lambda package: package.__name__)
def test_every_exported_name_is_found_and_listed(package: ModuleType) -> None:
    assert set(package.__all__) <= set(dir(package))
    assert [name for name in package.__all__ if not hasattr(package, name)] == []


@pytest.mark.parametrize("package", ["", "control", "logs"])
def test_type_checkers_see_the_names_that_are_exported(package: str) -> None:
    """Imports below TYPE_CHECKING and the table beside them name the same modules."""
    branch = next(node for node in tree_of(SOURCE / package / "__init__.py").body if isinstance(node, ast.If))
    seen = {node.module: [one.name for one in node.names] for node in branch.body if isinstance(node, ast.ImportFrom)}
    call = next(node for node in ast.walk(branch.orelse[0]) if isinstance(node, ast.Call))
    assert ast.literal_eval(call.args[1]) == seen
    names = {name for found in seen.values() for name in found} | (set() if package else set(vars(errors)))
    assert set(importlib.import_module(f"mainspring.{package}".strip(".")).__all__) <= names


def test_star_import_brings_every_exported_name() -> None:
    names: dict[str, object] = {}
    exec("from mainspring import *", names)
    assert set(mainspring.__all__) <= set(names)
    assert names["Job"] is mainspring.Job


def test_exported_classes_are_pickled_by_the_module_that_defines_them() -> None:
    assert pickle.loads(pickle.dumps(mainspring.Backoff(initial=2))) == mainspring.Backoff(initial=2)
    assert pickle.loads(pickle.dumps(mainspring.Mainspring)) is mainspring.Mainspring


def test_import_of_the_package_is_enough_to_use_its_modules() -> None:
    assert "events" in loaded_by("import mainspring; mainspring.events.JobEnded")


@pytest.mark.parametrize("name", ["Jobs", "nothing", "__wrapped__"])
def test_unknown_name_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'mainspring' has no attribute '{name}'"):
        getattr(mainspring, name)
    with pytest.raises(ImportError):
        exec(f"from mainspring import {name}")


def test_former_name_gives_the_new_one_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match=r"mainspring\.acting is mainspring\.act_as now") as warned:
        assert mainspring.acting is mainspring.act_as  # type: ignore[attr-defined]
    assert warned[0].filename == __file__


# values that are made at their first use


class Counting:
    def __init__(self) -> None:
        self.made = 0

    @lazy_property
    def part(self) -> int:
        """The part."""
        self.made += 1
        return self.made


def test_lazy_property_is_made_once_for_each_object() -> None:
    one, other = Counting(), Counting()
    assert (one.part, one.part, other.part) == (1, 1, 1)
    assert Counting.part.__doc__ == "The part."


def test_lazy_property_is_made_once_if_threads_ask_together() -> None:
    entered, go_on, made = Event(), Event(), []

    class Slow:
        @lazy_property
        def part(self) -> int:
            made.append(None)
            entered.set()
            assert go_on.wait(10)
            return len(made)

    slow, found = Slow(), []
    threads = [Thread(target=lambda: found.append(slow.part)) for _ in range(2)]
    threads[0].start()
    assert entered.wait(10)
    threads[1].start()
    threads[1].join(0.1)  # it would make another one in that time
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert (len(made), found) == (1, [1, 1])
