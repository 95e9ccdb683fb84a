"""The house rules that no linter knows: layers, clocks, sleeps, names, docstrings, the public face."""

import ast
import gc
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

import mainspring
from mainspring import errors

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "mainspring"
TESTS = ROOT / "tests"
MODULES = sorted(SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def tree_of(path: Path) -> ast.Module:
    """A finalizer that runs meanwhile can spoil the parser's count of depth (CPython gh-106905)."""
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        gc.enable()


# layers

# Each may import from those before it, and from its own package. A new module needs its place here.
LAYERS: list[set[str]] = [
    {"errors", "bucket", "clock", "document", "hint", "ids", "failpoint", "mask", "program", "signals"},
    {"acting", "credential", "measure", "retry", "threads", "trigger", "wear", "systemd"},
    {"lifeline"},
    {"job", "config", "finding", "reloader", "schema", "supervisor"},
    {"codec"},
    {"context", "outcome", "sync", "retention", "schedule", "why"},
    {"load", "logs", "standing", "tally"},
    {"aftermath", "amendment", "plan"},
    {"distribution", "key", "events", "stats", "store", "middleware", "handle", "wire", "interrupts"},
    {"insistence", "notice", "patience", "spread", "vigil"},
    {"depth", "diagnosis", "journal", "leader", "prune", "task", "stores", "process", "quota", "news"},
    {"herald", "processes", "spec", "webhook"},
    {"newsstand", "scheduler"},
    {"control", "courier", "deadletter", "runner", "child"},
    {"slots", "completion"},
    {"appetite", "limits", "pulse", "settlement"},
    {"sweep"},
    {"worker"},
    {"health"},
    {"remote"},
    {"app"},
    {"__init__"},
    {"metrics"},
    {"api"},
    {"cli", "testing"},
    {"demo"},
]
LEVEL = {noun: level for level, layer in enumerate(LAYERS) for noun in layer}
# The ways up: the command opens the show, the app its test harness and its API, when they are asked to and not before.
UPWARD = {("cli.demo", "demo.stage"), ("app", "testing.harness"), ("app", "api.service")}


def noun(module: str) -> str:
    return module.partition(".")[0]


def imports(path: Path) -> Iterator[str]:
    """Our modules that this one imports when it runs, inside functions too."""
    package = path.relative_to(SOURCE).parts[:-1]

    def walk(node: ast.AST) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.ImportFrom):
                yield from _targets(child, package)
            elif isinstance(child, ast.Import):
                yield from (_ours(alias.name) for alias in child.names if noun(alias.name) == "mainspring")
            yield from walk(child)

    return walk(tree_of(path))


def _ours(name: str) -> str:
    return name.removeprefix("mainspring").lstrip(".") or "__init__"


def _targets(node: ast.ImportFrom, package: tuple[str, ...]) -> Iterator[str]:
    if not node.level:
        if noun(node.module or "") == "mainspring":
            yield _ours(node.module or "")
        return
    base = ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])
    for alias in node.names:
        inner = f"{base}.{alias.name}".lstrip(".")
        path = SOURCE / Path(*inner.split("."))
        yield inner if path.with_suffix(".py").exists() or path.is_dir() else base or "__init__"


def test_every_module_has_its_layer() -> None:
    assert {noun(name_of(path)) for path in MODULES} == set(LEVEL)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_one_way(path: Path) -> None:
    me = name_of(path)
    upward = [
        other
        for other in imports(path)
        if noun(other) != noun(me) and LEVEL[noun(other)] >= LEVEL[noun(me)] and (me, other) not in UPWARD
    ]
    assert upward == []


def test_the_imports_are_really_read() -> None:
    assert "task" in set(imports(SOURCE / "app.py"))
    assert "stores.sqlite.store" in set(imports(SOURCE / "stores" / "__init__.py"))
    assert "app" not in set(imports(SOURCE / "task.py"))  # for types only


# stores

STORES = re.compile("sqlite|postgres|redis", re.IGNORECASE)
MAY_NAME_STORES = {"stores", "cli", "demo"}


def words(tree: ast.Module) -> Iterator[str]:
    """Names and texts of the code; docstrings and comments are not code."""
    documentation = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.arg(arg=word) | ast.alias(name=word):
                yield word
            case ast.FunctionDef(name=word) | ast.AsyncFunctionDef(name=word) | ast.ClassDef(name=word):
                yield word
            case ast.ImportFrom(module=str(word)):
                yield word
            case ast.Constant(value=str(word)) if id(node) not in documentation:
                yield word


@pytest.mark.parametrize("path", [path for path in MODULES if noun(name_of(path)) not in MAY_NAME_STORES], ids=name_of)
def test_no_store_is_named_outside_the_stores(path: Path) -> None:
    named = [word for word in words(tree_of(path)) if STORES.search(word)]
    settings = ["postgres_schema", "postgres_table_prefix", "redis_key_prefix", "sqlite:///mainspring.db"]
    assert sorted(named) == (settings if path.name == "config.py" else [])


# time

READS = {
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"},
}


def clock_reads(tree: ast.Module) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in READS.get(ast.unparse(node.value).rpartition(".")[2], ()):
            found.append(ast.unparse(node))
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            found += [f"time.{alias.name}" for alias in node.names if alias.name in READS["time"]]
    return found


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_only_the_clock_reads_the_time(path: Path) -> None:
    assert bool(clock_reads(tree_of(path))) == (name_of(path) == "clock")


def test_nobody_waits_in_a_way_that_may_swallow_a_cancellation() -> None:
    """asyncio.wait_for of Python 3.11 does, if what it waits for comes at the same moment; asyncio.timeout never."""
    assert [name_of(path) for path in MODULES if "wait_for" in path.read_text(encoding="utf-8")] == []


# sleeps

# Where a test may wait for real time, and why.
MAY_SLEEP = {
    "chaos/audit.py:until": "looks at files that other processes write",
    "chaos/candidate.py:main.work": "counts now and then, in a process that will be killed",
    "chaos/customer.py:insist": "tries again, in a process of its own, a server that is not there",
    "chaos/customer.py:shop": "asks now and then, in a process of its own",
    "chaos/victim.py:make.nap": "a job that takes long, in a process that will be killed",
    "chaos/victim.py:make.held": "waits for a file that the test's process makes",
    "cli/test_worker_metrics.py:until": "looks at figures that processes tell now and then",
    "clusters.py:eventually": "looks at what servers say to each other",
    "contract/test_postgres_ear.py:beats": "looks at what a worker with its own beat thread has done",
    "contract/test_postgres_ear.py:silence": "listens until nobody says anything any more",
    "servers.py:PgBouncer.start": "looks whether a pooler has begun to serve",
    "servers.py:Postgres._until_ready": "looks whether a server has begun to serve",
    "servers.py:Prometheus.until": "looks at what a server has scraped",
    "servers.py:Redis._until_ready": "looks whether a server has begun to serve",
    "test_examples.py:Player._beside_us": "looks whether a process has begun to serve",
    "worker/test_worker_fences.py:until": "looks at what a worker with its own beat thread has done",
}


def sleeps(node: ast.AST, inside: tuple[str, ...] = ()) -> Iterator[str]:
    """Where time.sleep or asyncio.sleep is called with more than nothing."""
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        where = (*inside, child.name) if named else inside  # type: ignore[attr-defined]
        if isinstance(child, ast.Call) and ast.unparse(child.func) in ("time.sleep", "asyncio.sleep", "sleep"):
            nothing = [ast.unparse(argument) for argument in child.args] == ["0"]
            if not nothing:
                yield ".".join(where)
        yield from sleeps(child, where)


def test_no_test_sleeps_without_a_reason() -> None:
    found = {
        f"{path.relative_to(TESTS).as_posix()}:{where}"
        for path in TESTS.rglob("*.py")
        for where in sleeps(tree_of(path))
    }
    assert found == set(MAY_SLEEP)


# names

VAGUE = {"util", "utils", "common", "helper", "helpers", "types", "base", "manager", "managers", "misc", "core"}


def test_a_newcomer_finds_each_file_by_its_noun() -> None:
    named = {part for path in MODULES for part in path.relative_to(SOURCE).with_suffix("").parts}
    assert named & VAGUE == set()


def test_every_folder_of_tests_is_among_the_parts_that_run() -> None:
    parts = (ROOT / "scripts" / "test").read_text()
    folders = {path.parent.relative_to(ROOT).as_posix() for path in TESTS.rglob("test_*.py")} - {"tests"}
    assert [folder for folder in sorted(folders) if folder not in parts] == []


def test_every_test_file_has_a_name_of_its_own() -> None:
    """pytest imports them by name, so a second one of the same name would not run."""
    names = Counter(path.name for path in TESTS.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


# docstrings


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_module_says_its_one_job_in_one_line(path: Path) -> None:
    first, *rest = (ast.get_docstring(tree_of(path), clean=False) or "").splitlines() or [""]
    assert first
    assert first.endswith(".")
    assert rest[:1] in ([], [""])


# the public face

PUBLIC = [
    "ApiKeyExists",
    "ApiKeyNotFound",
    "Archived",
    "Backoff",
    "BadInput",
    "BadPayload",
    "BadSetting",
    "BadTask",
    "Breaker",
    "Cancel",
    "Clock",
    "Context",
    "DeadLetter",
    "Discard",
    "Entry",
    "Execution",
    "Failure",
    "Filter",
    "Handle",
    "Health",
    "HookChanged",
    "HookExists",
    "HookNotFound",
    "InvalidTransition",
    "Items",
    "ItemsFailed",
    "Job",
    "JobCancelled",
    "JobDead",
    "JobExists",
    "JobExpired",
    "JobNotFound",
    "JobTimeout",
    "JobUnfinished",
    "Key",
    "Leader",
    "LeaseLost",
    "LogLine",
    "Mainspring",
    "MainspringError",
    "Middleware",
    "NewJob",
    "NotLeader",
    "NotSigned",
    "Reason",
    "ResultTimeout",
    "Retention",
    "Retry",
    "Schedule",
    "ScheduleChanged",
    "ScheduleExists",
    "ScheduleNotFound",
    "SchemaMismatch",
    "ShuttingDown",
    "Snooze",
    "Stale",
    "State",
    "Stats",
    "Store",
    "StoreError",
    "StoreUnavailable",
    "SystemClock",
    "Task",
    "Tick",
    "Trail",
    "Trigger",
    "UnknownTask",
    "Window",
    "Worker",
    "WorkerNotFound",
    "acting",
    "at",
    "cron",
    "every",
]


def test_the_public_names_are_these() -> None:
    assert mainspring.__all__ == PUBLIC


def test_the_public_names_are_sorted_and_there() -> None:
    assert mainspring.__all__ == sorted(set(mainspring.__all__))
    assert all(hasattr(mainspring, name) for name in mainspring.__all__)


def test_the_package_itself_holds_no_code() -> None:
    kinds = {type(node) for node in tree_of(SOURCE / "__init__.py").body}
    assert kinds == {ast.Expr, ast.ImportFrom, ast.Assign}


LATE = {
    "rich", "click", "sqlite3", "hypothesis", "pytest", "uvloop", "asyncpg", "psycopg", "sqlalchemy",
    "django", "hiredis", "httpx", "litestar", "pydantic",
    "prometheus_client", "opentelemetry", "jwt",
}  # fmt: skip


def test_importing_mainspring_loads_nothing_that_is_not_needed_yet() -> None:
    code = "import mainspring, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert set(loaded.stdout.split()) & LATE == set()
    assert "msgspec" in loaded.stdout.split()


def test_our_types_are_shipped() -> None:
    assert files("mainspring").joinpath("py.typed").is_file()


# errors


def drawn() -> dict[str, tuple[str | None, str | None]]:
    """The tree at the top of errors.py: each class with its parent there, and the builtin it also is."""
    found: dict[str, tuple[str | None, str | None]] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").partition("\n\n")[2].splitlines():
        if match := re.match(r"([│├└─ ]*)([A-Z]\w+)(?: \((\w+)\))?", line):
            depth = len(match[1]) // 4
            del above[depth:]
            found[match[2]] = (above[-1] if above else None, match[3])
            above.append(match[2])
    return found


def defined() -> dict[str, type[Exception]]:
    return {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}


def test_every_error_is_in_the_tree() -> None:
    assert set(drawn()) == set(defined())


@pytest.mark.parametrize("name", sorted(defined()))
def test_the_tree_shows_the_true_parents(name: str) -> None:
    parent, builtin = drawn()[name]
    bases = {parent or "Exception"} | ({builtin} if builtin else set())
    assert {base.__name__ for base in defined()[name].__bases__} == bases


def test_every_error_is_public() -> None:
    assert set(defined()) <= set(mainspring.__all__)
