"""The house rules that no linter checks: tiers, clocks, sleeps, names, docstrings, public names, errors."""

import ast
import inspect
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib.resources import files
from pathlib import Path
from typing import Protocol

import mainspring
from mainspring import errors
from mainspring.store import Store, StoreLife, TransactionalStore
from mainspring.stores.memory.store import MemoryStore
from mainspring.stores.postgres.store import PostgresStore
from mainspring.stores.redis.store import RedisStore
from mainspring.stores.sqlite.store import SqliteStore
from source_tree import MODULES, ROOT, SOURCE, TESTS, name_of, parse, tree_of

# tiers

# A package or module of the top folder may import from its own tier and from those before it.
TIERS: list[set[str]] = [
    {"errors", "bounds", "clock", "config", "counters", "failpoint", "histogram", "ids", "lazy", "mask", "retry"}
    | {"span", "suggest", "survived_errors", "actor", "url"},
    {"records", "trigger"},
    {"codec", "sync", "flow", "task", "middleware", "executor"},
    {"schedule"},
    {"events", "store", "leader", "logs"},
    {"stores", "feed", "insight", "webhook"},
    {"worker", "health", "supervisor"},
    {"control", "registry", "engine", "app", "__init__"},
    {"client", "metrics", "api", "cli", "dashboard", "demo", "django", "testing"},
]
TIER = {package: number for number, tier in enumerate(TIERS) for package in tier}
# Imported when they are asked for and not before: the test harness, the HTTP API, its client.
UPWARD = {
    ("app", "api.service"),
    ("app", "testing.harness"),
    ("engine", "client.facades"),
}


def noun(module: str) -> str:
    return module.partition(".")[0]


def imports(path: Path) -> Iterator[str]:
    """The modules of mainspring that a module imports at run time, also inside functions."""
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


def test_every_package_has_a_tier() -> None:
    assert {noun(name_of(path)) for path in MODULES} <= set(TIER)


def between_packages() -> Iterator[tuple[str, str]]:
    for path in MODULES:
        me = name_of(path)
        yield from ((me, other) for other in imports(path) if noun(other) != noun(me))


def test_imports_point_down_the_tiers() -> None:
    assert {(me, other) for me, other in between_packages() if TIER[noun(other)] > TIER[noun(me)]} <= UPWARD


def test_packages_of_a_tier_have_no_import_cycle() -> None:
    edges: dict[str, set[str]] = {package: set() for package in TIER}
    for me, other in between_packages():
        if (me, other) not in UPWARD:
            edges[noun(me)].add(noun(other))
    TopologicalSorter(edges).prepare()


def test_imports_of_modules_are_read() -> None:
    assert "task.task" in set(imports(SOURCE / "engine.py"))
    assert "stores.sqlite.store" in set(imports(SOURCE / "stores" / "sqlite" / "from_url.py"))
    assert "app" not in set(imports(SOURCE / "task" / "task.py"))  # for types only


# wiring

# Parts get what they need from their constructors. A run's context is filled by the runner, which makes it.
WIRED = ("app", "engine", "registry", "worker.", "testing.driver", "testing.engine", "testing.harness")
MAY_BE_FILLED = {("worker.runner", "ctx")}


def foreign_assignments(tree: ast.Module) -> Iterator[str]:
    """The names of the objects other than self whose attributes the module assigns."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            owner = ast.unparse(node.value)
            if owner not in ("self", "cls"):
                yield owner


def test_no_object_assigns_the_attributes_of_another() -> None:
    wired = [path for path in MODULES if name_of(path).startswith(WIRED)]
    found = {(name_of(path), owner) for path in wired for owner in foreign_assignments(tree_of(path))}
    assert found == MAY_BE_FILLED


# options


def test_an_option_of_jobs_is_in_at_most_five_files() -> None:
    """debounce_limit stands for all: see "Adding an option" in CONTRIBUTING.md."""
    named = {name_of(path) for path in MODULES if "debounce_limit" in path.read_text(encoding="utf-8")}
    assert len([name for name in named if noun(name) != "testing"]) <= 5


# stores

STORES = re.compile("sqlite|postgres|redis", re.IGNORECASE)
MAY_NAME_STORES = (
    "stores.",
    "store.life",
    "cli.",
    "client.",
    "demo.",
    "django.database_url",
    "insight.settings_report",
)


def words(tree: ast.Module) -> Iterator[str]:
    """The identifiers and strings of a module, without docstrings and comments."""
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


def test_stores_are_named_only_in_their_packages() -> None:
    named = [
        (name_of(path), word)
        for path in MODULES
        if not name_of(path).startswith(MAY_NAME_STORES)
        for word in words(tree_of(path))
        if STORES.search(word)
    ]
    settings = ["postgres_schema", "postgres_table_prefix", "redis_key_prefix", "sqlite:///mainspring.db"]
    assert sorted(named) == [("config", word) for word in settings]


# verbs

MAX_VERBS = 40


def verbs_of(facet: type) -> list[str]:
    return [name for name, value in vars(facet).items() if inspect.iscoroutinefunction(value)]


def test_the_store_protocol_has_few_verbs() -> None:
    """Each verb is written four times, and each is a word to learn. Opening and migrating are not counted."""
    facets = [facet for facet in Store.__mro__ if issubclass(facet, Protocol) and facet not in (Store, StoreLife)]  # type: ignore[arg-type]
    verbs = {f"{facet.__name__}.{name}" for facet in facets for name in verbs_of(facet)}
    verbs |= {f"TransactionalStore.{name}" for name in vars(TransactionalStore) if name == "transaction"}
    assert len(verbs) <= MAX_VERBS, f"{len(verbs)} verbs, {MAX_VERBS} allowed: {', '.join(sorted(verbs))}"
    assert {"JobStore.claim", "RetentionStore.prune", "TransactionalStore.transaction"} <= verbs
    assert verbs_of(Store) == []


def test_each_verb_of_a_store_is_written_once() -> None:
    """A verb is a method in the file of its statements: no function repeats its name, and store.py has none."""
    verbs = {name for facet in Store.__mro__ if facet is not StoreLife for name in verbs_of(facet)}
    for store in (MemoryStore, SqliteStore, PostgresStore, RedisStore):
        folder = Path(inspect.getfile(store)).parent
        classes = [one for one in store.__mro__ if one.__module__.startswith("mainspring.stores.")]
        places = {verb: [one.__module__.rpartition(".")[2] for one in classes if verb in vars(one)] for verb in verbs}
        assert {verb: found for verb, found in places.items() if len(found) != 1} == {}, folder
        assert {verb for verb, found in places.items() if found == ["store"]} <= {"wait", "time"}, folder
        functions = {f"{path.name}:{node.name}" for path in folder.glob("*.py") for node in functions_of(tree_of(path))}
        assert [one for one in functions if one.partition(":")[2] in verbs] == [], folder


def functions_of(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


# sizes

MAX_LINES = {"store.py": 150, "app.py": 250}
MAX_LINES_OF_A_MODULE = 450


def test_no_module_is_long() -> None:
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {
        name_of(path): count for path, count in lines.items() if count > MAX_LINES.get(path.name, MAX_LINES_OF_A_MODULE)
    } == {}


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


def test_only_the_clock_module_reads_the_time() -> None:
    assert [name_of(path) for path in MODULES if clock_reads(tree_of(path))] == ["clock"]


def test_wait_for_is_not_used() -> None:
    """asyncio.wait_for of Python 3.11 may swallow a cancellation that comes with the result; asyncio.timeout never."""
    assert [name_of(path) for path in MODULES if "wait_for" in path.read_text(encoding="utf-8")] == []


# sleeps

# Places in tests that may wait for real time, each with the reason.
MAY_SLEEP = {
    "chaos/audit.py:until": "looks at files that other processes write",
    "chaos/candidate.py:stand.work": "counts now and then, in a process that will be killed",
    "chaos/customer.py:insist": "tries again, in a process of its own, a server that is not there",
    "chaos/customer.py:shop": "asks now and then, in a process of its own",
    "chaos/batching.py:make.send": "a job that takes long, in a process that will be killed",
    "chaos/limiting.py:make.share": "a job that takes long, in a process that will be killed",
    "chaos/limiting.py:make.metered": "a job that takes long, in a process that will be killed",
    "chaos/producing.py:make.gather": "a job that takes long, in a process that will be killed",
    "chaos/speaking.py:make.speak": "writes slowly, in a process that will be killed",
    "chaos/victim.py:make.nap": "a job that takes long, in a process that will be killed",
    "chaos/victim.py:make.held": "waits for a file that the test's process makes",
    "cli/conftest.py:until.ask": "looks at what other processes have done",
    "cli/test_worker_metrics.py:until": "looks at figures that processes tell now and then",
    "clusters.py:eventually": "looks at what servers say to each other",
    "contract/test_postgres_idle.py:beats": "looks at what a worker with its own beat thread has done",
    "contract/test_postgres_idle.py:until_true": "looks whether a pool on a real server has closed its connections",
    "contract/test_postgres_listener.py:beats": "looks at what a worker with its own beat thread has done",
    "contract/test_postgres_listener.py:silence": "listens until nobody says anything any more",
    "servers.py:PgBouncer.start": "looks whether a pooler has begun to serve",
    "servers.py:Postgres._until_ready": "looks whether a server has begun to serve",
    "servers.py:Prometheus.until": "looks at what a server has scraped",
    "servers.py:Redis._until_ready": "looks whether a server has begun to serve",
    "simulation/loop.py:TrueClock.sleep": "in the virtual time of its event loop",
    "test_clip_service.py:Running._until_ready": "looks whether a process has begun to serve",
    "test_clip_service.py:Running.until_all_have_run": "asks a server in another process how far its jobs are",
    "test_examples.py:Player._console": "looks at what a worker in another process has done",
    "test_examples.py:Player._beside_us": "looks whether a process has begun to serve",
    "test_mutate.py:_until": "looks for a process that a program of the test has started",
    "web/test_request_limits.py:closed.send": "sends a byte now and then to a real server",
    "worker/test_worker_fences.py:until": "looks at what a worker with its own beat thread has done",
    "web/watched.py:Watch.look": "measures how late the event loop of a real server is",
    "web/watched.py:watched.asked": "lets that look once more before it tells",
}


def sleeps(node: ast.AST, inside: tuple[str, ...] = ()) -> Iterator[str]:
    """The functions that call time.sleep or asyncio.sleep with more than 0."""
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        where = (*inside, child.name) if named else inside  # type: ignore[attr-defined]
        if isinstance(child, ast.Call) and ast.unparse(child.func) in ("time.sleep", "asyncio.sleep", "sleep"):
            nothing = [ast.unparse(argument) for argument in child.args] == ["0"]
            if not nothing:
                yield ".".join(where)
        yield from sleeps(child, where)


def test_no_test_sleeps_without_a_reason() -> None:
    paths = [path for path in TESTS.rglob("*.py") if "sleep(" in path.read_text(encoding="utf-8")]
    found = {f"{path.relative_to(TESTS).as_posix()}:{where}" for path in paths for where in sleeps(parse(path))}
    assert found == set(MAY_SLEEP)


# names

VAGUE = {"util", "utils", "common", "helper", "helpers", "types", "base", "manager", "managers", "misc", "core"}


def test_no_module_has_a_vague_name() -> None:
    named = {part for path in MODULES for part in path.relative_to(SOURCE).with_suffix("").parts}
    assert named & VAGUE == set()


def test_scripts_test_runs_every_folder_of_tests() -> None:
    parts = (ROOT / "scripts" / "test").read_text()
    folders = {path.parent.relative_to(ROOT).as_posix() for path in TESTS.rglob("test_*.py")} - {"tests"}
    assert [folder for folder in sorted(folders) if folder not in parts] == []


def test_names_of_test_modules_are_unique() -> None:
    """pytest imports modules of tests by name, so one of two with the same name could not be imported."""
    folders = {path.parent for path in TESTS.rglob("test_*.py")}
    names = Counter(path.name for folder in folders for path in folder.glob("*.py") if path.name != "conftest.py")
    assert [name for name, count in names.items() if count > 1] == []


# docstrings


def one_sentence(text: str) -> bool:
    first, *rest = text.splitlines() or [""]
    return first.endswith(".") and rest[:1] in ([], [""])


def test_every_module_has_a_docstring_of_one_sentence() -> None:
    said = {name_of(path): ast.get_docstring(tree_of(path), clean=False) or "" for path in MODULES}
    assert [name for name, text in said.items() if not one_sentence(text)] == []


# public names

PUBLIC = [
    "ApiKeyExists",
    "ApiKeyNotFound",
    "Archived",
    "AuditEntry",
    "AuditFilter",
    "Backoff",
    "BadFlow",
    "BadInput",
    "BadPayload",
    "BadSetting",
    "BadTask",
    "Batch",
    "BatchCounts",
    "BatchEnded",
    "BatchFailed",
    "BatchSummary",
    "Breaker",
    "Cancel",
    "ChildFailed",
    "Clock",
    "Collect",
    "Context",
    "DeadLetter",
    "DeadStep",
    "Discard",
    "Execution",
    "Failure",
    "Filter",
    "Finish",
    "FlowFailed",
    "FlowFailure",
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
    "Limit",
    "LogLine",
    "Mainspring",
    "MainspringError",
    "Middleware",
    "NewJob",
    "NotLeader",
    "NotSigned",
    "OutputChunk",
    "Principal",
    "Reason",
    "ResultTimeout",
    "Results",
    "Retention",
    "Retry",
    "Schedule",
    "ScheduleChanged",
    "ScheduleExists",
    "ScheduleNotFound",
    "SchemaMismatch",
    "ShownState",
    "ShuttingDown",
    "SignalLate",
    "SignalRefused",
    "SignalTimeout",
    "SignalTwice",
    "SignalUnknown",
    "Skip",
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
    "Trigger",
    "UnknownTask",
    "Window",
    "Worker",
    "WorkerNotFound",
    "act_as",
    "at",
    "cron",
    "every",
    "exists",
    "first",
    "in_",
    "not_",
    "signal",
]


def test_public_names_are_pinned() -> None:
    assert mainspring.__all__ == PUBLIC


def test_public_names_are_sorted_and_exist() -> None:
    assert mainspring.__all__ == sorted(set(mainspring.__all__))
    assert all(hasattr(mainspring, name) for name in mainspring.__all__)


def test_package_init_has_only_imports_and_aliases() -> None:
    """Only imports, those at first use included, and the aliases of earlier releases."""
    (branch,) = (node for node in tree_of(SOURCE / "__init__.py").body if isinstance(node, ast.If))
    assert ast.unparse(branch.test) == "TYPE_CHECKING"
    assert {type(node) for node in (*branch.body, *branch.orelse)} == {ast.ImportFrom, ast.Assign}
    body = [node for node in tree_of(SOURCE / "__init__.py").body if node is not branch]
    assert {type(node) for node in body} == {ast.Expr, ast.ImportFrom, ast.Assign}


LATE = {
    "rich", "click", "sqlite3", "hypothesis", "pytest", "uvloop", "asyncpg", "psycopg", "sqlalchemy",
    "django", "hiredis", "httpx", "litestar", "pydantic",
    "prometheus_client", "opentelemetry", "jwt",
}  # fmt: skip


def test_import_of_the_app_loads_no_optional_dependency() -> None:
    code = "import sys; from mainspring import Mainspring; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert set(loaded.stdout.split()) & LATE == set()
    assert "msgspec" in loaded.stdout.split()


def test_py_typed_is_shipped() -> None:
    assert files("mainspring").joinpath("py.typed").is_file()


# errors


def error_tree() -> dict[str, tuple[str | None, str | None]]:
    """The tree in the docstring of errors.py: each class with its parent, and its builtin base if it has one."""
    found: dict[str, tuple[str | None, str | None]] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").partition("\n\n")[2].splitlines():
        if match := re.match(r"([│├└─ ]*)([A-Z]\w+)(?: \((\w+)\))?", line):
            depth = len(match[1]) // 4
            del above[depth:]
            found[match[2]] = (above[-1] if above else None, match[3])
            above.append(match[2])
    return found


def error_classes() -> dict[str, type[Exception]]:
    return {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}


def test_error_tree_names_every_error() -> None:
    assert set(error_tree()) == set(error_classes())


def test_error_tree_shows_the_base_classes() -> None:
    shown = {
        name: {parent or "Exception", *([builtin] if builtin else [])}
        for name, (parent, builtin) in error_tree().items()
    }
    assert shown == {name: {base.__name__ for base in kind.__bases__} for name, kind in error_classes().items()}


def test_every_error_is_public() -> None:
    assert set(error_classes()) <= set(mainspring.__all__)


# swallowed errors

# Exceptions of these types are normal replies, not errors.
ANSWERS = {
    "asyncio.CancelledError": "a task of our own that was just cancelled",
    "BlockingIOError": "there is nothing to read now, or no room to write",
    "Empty": "nothing is in the queue",
    "FileNotFoundError": "a file that came and went",
    "ImportError": "a part that this system does not have",
    "Interrupted": "meant for a function that has ended",
    "NotImplementedError": "a call that this system does not have",
    "NotLeader": "another one leads",
    "OverflowError": "beyond the calendar",
    "ProcessLookupError": "a process that has ended before its signal",
    "ShuttingDown": "the app or the store was closed, by this process",
}
# Places that may swallow any other exception without a log line and a count, each with the reason.
MAY_SWALLOW = {
    "api.access.jwks:_parse_key": "a key of another kind in a key set: a token that needs it is refused",
    "api.parameters:parse_instant": "not a date in that form: another form is tried, then the caller is refused",
    "cli.app_loader:inside": "the command says itself that the store cannot be opened",
    "cli.migrate:_question": "tables of another version cannot be counted: the question is put without a number",
    "cli.options:moment": "not a span of time: it is read as an instant, and refused if it is none",
    "cli.top.terminal:_restore": "the terminal itself is gone",
    "control.bulk_page:resume_from": "a cursor that cannot be read is refused below",
    "executor.child:main": "a system that does not let a process change how it is chosen when memory runs out",
    "executor.child_steps:step": "a step of a run that has ended: its worker knows of none under way",
    "executor.child:serve": "a stream of the task's own that is closed: there is nothing left to flush",
    "executor.process:_pidfd": "a system without pidfd: the process is watched in another way",
    "executor.process:hang_up": "the other end of a pipe has closed it",
    "executor.process:kill": "a process that has changed its user: what waits for its end reports it",
    "executor.resource_limits:__init__": "a system that does not let a process reset its peak",
    "executor.resource_limits:_status": "a system that does not say how much memory a process uses",
    "feed.event:decode": "an event of the feed of another release",
    "metrics.endpoint:_serve": "a client that has gone, or is too slow",
    "stores.postgres.connector:_enable_keepalive": "a socket that has no such option",
    "stores.postgres.connector:shut_socket": "a connection whose event loop is gone",
    "stores.postgres.listener:_listen_until_lost": "the time between two probes is over",
    "stores.postgres.listener:is_listening": "the caller's time is over, and it is told so",
    "stores.postgres.notifier:_pause": "the pause is over",
    "stores.postgres.enqueue:_enqueue": "the jobs are there already: the caller gets what they are",
    "stores.postgres.enqueue:_insert_searching": "the partition was dropped meanwhile: all partitions are searched",
    "stores.redis.listener:wait_until_known": "the caller's time is over, and it is told so",
    "stores.redis.two_phase:_commit_in_pieces": "the next client that meets the prepared transaction resolves it",
    "stores.redis.two_phase:_commit_across": "the next client that meets the prepared transaction resolves it",
    "stores.redis.two_phase:locked": "a lock that could not be given back ends by itself",
    "stores.rows:_instant_or_none": "an instant of a record that cannot be decoded, which is reported as such",
    "stores.sqlite.commit_watch:_on_write": "the store was closed meanwhile",
    "stores.sqlite.writer_thread:_deliver": "the event loop that waited is closed",
    "stores.sqlite.writer_thread:_roll_back": "SQLite has rolled back by itself: the error that led here is raised",
    "supervisor.channel:send": "the supervisor is gone, or reads later: what was not sent goes with the next message",
    "supervisor.reloader:send": "the reloader is gone, and this process ends with it",
    "supervisor.reloader:_modified_at": "a file that is gone: that is a change, too",
    "supervisor.signals:on_stop": "not the main thread",
    "supervisor.supervisor:_listen": "the process has ended: its exit code is reported",
    "worker.run_output:waited": "a part of a wait is over, and the next one begins",
    "worker.report_buffer:_stack": "an error whose text cannot be made: the line says so",
    "worker.report_buffer:_text": "a line that cannot be formatted: the line says so",
    "worker.report_buffer:_tell": "the worker's event loop is closed",
    "worker.report_buffer:log": "a log handler of this process that raises: the line is stored with the job",
    "task.results:_running_loop": "no event loop runs here",
    "testing.clock:_running_loop": "no event loop runs here",
    "testing.crash:_steps": "a run whose process has died, and that is closed",
    "testing.crash:_leave_blocks": "a block that a process has left by its death: nothing is told of its errors",
    "testing.expectation:_defaults": "a default that cannot be sent is never expected",
    "trigger.zone:zone_of": "a name that is not a time zone here: it is refused below",
    "webhook.address:ip_literal": "a name, and not an address",
    "webhook.delivery:_retry_after": "a header that is not a number is ignored",
    "webhook.document_repository:get_readable": "the document was logged and counted when it was decoded",
    "webhook.sender:_read_body_start": "as much of an answer as came in time",
    "webhook.sender:post": "a receiver that has closed its end may have answered",
    "worker.heartbeat:call_in_worker": "the worker's event loop is closed",
    "worker.slots:close": "a coroutine that was given up, and reported as leaked, ignores its end too",
    "worker.user_call:run": "the event loop that waited for a hook is closed",
}


def swallowed(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The function and the exception types of each handler without a statement, and of each suppress()."""

    def walk(node: ast.AST, function: str) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from walk(child, child.name if named else function)
            if isinstance(child, ast.ExceptHandler) and all(map(is_silent, child.body)):
                kinds = child.type.elts if isinstance(child.type, ast.Tuple) else [child.type]
                yield from ((function, ast.unparse(kind) if kind else "BaseException") for kind in kinds)
            elif isinstance(child, ast.Call) and ast.unparse(child.func) in ("suppress", "contextlib.suppress"):
                yield from ((function, ast.unparse(kind)) for kind in child.args)

    return walk(tree, "")


def is_silent(node: ast.stmt) -> bool:
    match node:
        case ast.Pass() | ast.Continue() | ast.Break() | ast.Expr(ast.Constant()):
            return True
        case ast.Return(value=None | ast.Constant(value=None)):
            return True
    return False


def swallowing_places() -> set[str]:
    return {
        f"{name_of(path)}:{function}"
        for path in MODULES
        for function, kind in swallowed(tree_of(path))
        if kind not in ANSWERS
    }


def test_swallowed_errors_are_logged_and_counted() -> None:
    """By survived_errors, or by a log line of its own. Every exception needs a reason in MAY_SWALLOW."""
    assert swallowing_places() == set(MAY_SWALLOW)


def test_swallowed_finds_handlers_that_only_pass() -> None:
    text = "def f():\n try: g()\n except (ValueError, KeyError):\n  pass\n with suppress(OSError): g()\n"
    assert list(swallowed(ast.parse(text))) == [("f", "ValueError"), ("f", "KeyError"), ("f", "OSError")]
    assert list(swallowed(ast.parse("def f():\n try: g()\n except OSError as error:\n  survived(error)\n"))) == []
