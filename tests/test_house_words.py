"""The house rules about words: class names, constants, prose, and the pages that name modules.

A rule that the code does not meet everywhere has a list of exceptions in tests/house. A list only gets shorter: a new
offence fails, and so does a line that is no offence any more. `MAINSPRING_TEST_HOUSE=write .venv/bin/python -m pytest
tests/test_house_words.py` writes the lists again, for a change that removes many lines at once.
"""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from source_tree import MODULES, ROOT, SOURCE, TESTS, name_of, tree_of

LISTS = TESTS / "house"
WRITE = os.environ.get("MAINSPRING_TEST_HOUSE") == "write"
HOW = "MAINSPRING_TEST_HOUSE=write .venv/bin/python -m pytest tests/test_house_words.py"
MAX_TOP_MODULES = 25
# The goals of limits.txt, which holds the present numbers until they are reached.
MAX_FMT_SKIPS = 60
MAX_BANNED_WORDS = 25


def listed(name: str) -> list[str]:
    """The lines of a list; none if there is no such file, which means that the rule has no exceptions."""
    path = LISTS / f"{name}.txt"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def check(name: str, found: Iterable[str]) -> None:
    """Fails on offenders that the list does not excuse, and on lines of it that excuse nothing."""
    offenders = sorted(set(found))
    if WRITE:
        (LISTS / f"{name}.txt").unlink(missing_ok=True)
        if offenders:
            (LISTS / f"{name}.txt").write_text("\n".join(offenders) + "\n", encoding="utf-8")
    allowed = set(listed(name))
    assert [one for one in offenders if one not in allowed] == []
    stale = sorted(allowed - set(offenders))
    assert stale == [], f"no offences any more: delete these lines of tests/house/{name}.txt, or {HOW}"


def check_count(name: str, count: int, goal: int) -> None:
    """Fails if there are more than limits.txt allows; the limit sinks with the count until it reaches the goal."""
    limits = dict(line.split() for line in listed("limits"))
    if WRITE:
        limits[name] = str(max(goal, count))
        lines = [f"{key} {value}" for key, value in sorted(limits.items())]
        (LISTS / "limits.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert count <= int(limits.get(name, goal))


# classes


def public_classes() -> dict[str, list[str]]:
    """The modules of each public class, by its name."""
    found = defaultdict(list)
    for path in MODULES:
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(name_of(path))
    return found


def test_public_class_names_are_unique() -> None:
    assert len(public_classes()) > 500
    check("duplicate_classes", (f"{name}: {', '.join(where)}" for name, where in public_classes().items() if where[1:]))


# constants

# Words of a name that say in what it is counted.
UNITS = frozenset({
    "ATTEMPTS", "BITS", "BLOCKS", "BUCKETS", "BURST", "BYTE", "BYTES", "CALLS", "CHANGES", "CHARACTERS", "CHILDREN",
    "CLIENTS", "CODE", "COLUMNS", "COMMANDS", "CONNECTIONS", "COUNT", "COUNTS", "DAYS", "DELIVERIES", "DEPTH",
    "DOCUMENTS", "ENTRIES", "ERRORS", "EVENTS", "FACTOR", "FD", "FIELDS", "FILES", "FLAG", "FLAGS", "FLUSHES",
    "FRACTION", "GROUPS", "HANDLERS", "HOURS", "IDS", "INSTRUCTIONS", "ITEMS", "JOBS", "KB", "KEYS", "KINDS",
    "LABELS", "LEADERS", "LEASES", "LEVEL", "LIMIT", "LINES", "MASK", "MB", "MESSAGES", "MICROS", "MICROSECONDS",
    "MILLISECONDS", "MINUTES", "MOVES", "MS", "NAMES", "NODES", "OUTCOMES", "PAGES", "PARTITIONS", "PER", "PERCENT",
    "PIXELS", "POINTS", "PORT", "PROBES", "PROCESSES", "QUEUES", "RANK", "RATIO", "READERS", "READS", "REDIRECTS",
    "RELEASE", "REPLIES", "REQUESTS", "RETRIES", "REVISION", "ROUNDS", "ROWS", "RUNS", "SAMPLES", "SCHEDULES",
    "SECOND", "SECONDS", "SEEDS", "SHARDS", "SHARE", "SIZE", "SLOTS", "STARTS", "STATEMENTS", "STATUS", "STEPS",
    "TASKS", "TERMS", "THREADS", "TICKS", "TIMES", "TRIES", "TURNS", "VALUES", "VERBS", "VERSION", "WAITERS",
    "WEEKDAYS", "WEEKS", "WORDS", "WORKERS", "WRITES", "YEAR", "YEARS",
})  # fmt: skip
VAGUE = frozenset({"PATIENCE", "MOST", "LONGEST", "STEP", "AGAIN", "MANY", "LOOK", "REST", "FEW", "FRESH"})


def constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Names in capitals that a module or a class assigns, each with its value."""
    for node in [*tree.body, *(inner for one in tree.body if isinstance(one, ast.ClassDef) for inner in one.body)]:
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            pairs = [(node.target, node.value)]
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else []
            pairs = list(zip(node.targets[0].elts, values, strict=False))
        elif isinstance(node, ast.Assign):
            pairs = [(node.targets[0], node.value)]
        else:
            continue
        for target, value in pairs:
            if isinstance(target, ast.Name) and re.fullmatch(r"_?[A-Z][A-Z0-9_]*", target.id):
                yield target.id, value


def is_number(value: ast.expr) -> bool:
    """Whether it is arithmetic on plain numbers, and not a flag, an enum or a timedelta."""
    match value:
        case ast.BinOp(left=left, right=right):
            return is_number(left) and is_number(right)
        case ast.UnaryOp(operand=operand):
            return is_number(operand)
        case ast.Constant(value=number):
            return isinstance(number, int | float) and not isinstance(number, bool)
    return False


def has_unit(name: str) -> bool:
    words = name.strip("_").split("_")
    return words[0] in ("MAX", "MIN") or not UNITS.isdisjoint(words)


def test_constants_carry_a_unit_or_are_a_count() -> None:
    check(
        "constants_without_unit",
        (
            f"{name_of(path)}:{name}"
            for path in MODULES
            for name, value in constants(tree_of(path))
            if is_number(value) and not has_unit(name)
        ),
    )


def test_no_constant_has_a_vague_name() -> None:
    found = [f"{name_of(path)}:{name}" for path in MODULES for name, _ in constants(tree_of(path))]
    assert len(found) > 300
    check("vague_constants", (place for place in found if place.rpartition(":")[2].strip("_") in VAGUE))


def test_numbers_without_a_unit_are_found() -> None:
    code = "A = 5\nB_SECONDS = 2 * 1.5\nC, MAX_D = -1, 1 << 4\nE: int = 7\nF = timedelta(1)\nG = True\n"
    code += "class K:\n  H = 3\n  i = 4\n"
    numbers = [name for name, value in constants(ast.parse(code)) if is_number(value)]
    assert numbers == ["A", "B_SECONDS", "C", "MAX_D", "E", "H"]
    assert [name for name in numbers if not has_unit(name)] == ["A", "C", "E", "H"]


# prose

BANNED = re.compile(r"\b(whoever|so many|anew|of which|somebody|nobody)\b", re.IGNORECASE)
COMMENTS = {".lua": re.compile(r"--(.*)"), ".sql": re.compile(r"--(.*)"), ".js": re.compile(r"(?:^|\s)(?://|/?\*)(.*)")}


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Those of modules, classes and functions, and the texts below attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def comments(text: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.lstrip("# ")


def prose(path: Path) -> Iterator[str]:
    """The lines of a file's docstrings and comments."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        for part in [*docstrings(tree_of(path)), *comments(text)]:
            yield from part.splitlines()
    else:
        yield from COMMENTS[path.suffix].findall(text)


def test_prose_has_no_banned_word() -> None:
    files = [path for path in SOURCE.rglob("*") if path.suffix in (".py", *COMMENTS) and path.parent.name != "vendor"]
    found = {
        f"{path.relative_to(SOURCE).as_posix()}: {line.strip()}"
        for path in files
        for line in prose(path)
        if BANNED.search(line)
    }
    check("banned_words", found)
    check_count("banned_words", len(found), MAX_BANNED_WORDS)


def test_a_banned_word_is_found(tmp_path: Path) -> None:
    for name, text in {
        "a.py": '"""Whoever.\n\nfine\n"""\nx = "nobody"  # somebody\n',
        "a.lua": "local x = 1 -- anew\nlocal anew = 2\n",
        "a.js": "/**\n * of which\n */\nconst nobody = 1; // so many\n",
    }.items():
        path = tmp_path / name
        path.write_text(text)
        expected = {"a.py": 2, "a.lua": 1, "a.js": 2}[name]
        assert sum(1 for line in prose(path) if BANNED.search(line)) == expected


# layout


def test_fmt_skip_comments_are_limited() -> None:
    """`# fmt: skip` is for tables."""
    count = sum(path.read_text(encoding="utf-8").count("# fmt: skip") for path in MODULES)
    check_count("fmt_skips", count, MAX_FMT_SKIPS)


def test_the_number_of_modules_in_the_top_folder_is_limited() -> None:
    assert len([path for path in MODULES if path.parent == SOURCE]) <= MAX_TOP_MODULES


# pages that name modules


def table_names(page: Path) -> Iterator[str]:
    """The names in code marks in the tables of a page; `a/{b,c}.py` is two of them."""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("|"):
            for mark in re.findall(r"`([^`]+)`", line):
                for name in re.split(r"[\s,]+(?![^{]*\})", mark):
                    yield from expanded(name)


def expanded(name: str) -> Iterator[str]:
    if match := re.fullmatch(r"([^{}]*)\{([^{}]*)\}(.*)", name):
        for part in match[2].split(","):
            yield from expanded(f"{match[1]}{part.strip()}{match[3]}")
    else:
        yield name


def module_paths() -> Iterator[str]:
    """Every module that has a name of its own, as `worker/heartbeat.py`."""
    for path in MODULES:
        if not path.stem.startswith("__"):
            yield path.relative_to(SOURCE).as_posix()


def test_modules_and_public_classes_are_in_the_glossary() -> None:
    named = set(table_names(ROOT / "docs" / "glossary.md"))
    patterns = [name for name in named if "*" in name]
    missing = [
        path
        for path in module_paths()
        if named.isdisjoint({path, path.removesuffix(".py")})
        and not any(fnmatchcase(path, pattern) for pattern in patterns)
    ]
    check("not_in_glossary", [*missing, *(name for name in public_classes() if name not in named)])


def test_every_package_is_described_in_contributing() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = {one.strip("/") for mark in re.findall(r"`([^`\n]+)`", text) for one in expanded(mark)}
    packages = [path.parent.relative_to(SOURCE).as_posix() for path in MODULES if path.name == "__init__.py"]
    check(
        "packages_not_in_contributing",
        (name for name in packages if name != "." and named.isdisjoint({name, f"src/mainspring/{name}"})),
    )


def is_file_name(name: str) -> bool:
    if re.fullmatch(r"[\w./*-]+", name) is None or name.startswith(("/", ".")):
        return False
    return "/" in name or name.endswith((".py", ".lua", ".sql", ".md"))


def exists(name: str) -> bool:
    return any(any(base.glob(name.rstrip("/"))) for base in (ROOT, SOURCE, TESTS))


def test_tables_name_files_that_exist() -> None:
    check(
        "missing_files",
        (
            f"{page}: {name}"
            for page in ("CONTRIBUTING.md", "docs/design.md")
            for name in table_names(ROOT / page)
            if is_file_name(name) and not exists(name)
        ),
    )


def test_names_in_tables_are_read(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("`no.py`\n\n| what | where |\n|---|---|\n| a | `a.py`, `b/{c,d}.py` `E.f()` |\n")
    assert list(table_names(page)) == ["a.py", "b/c.py", "b/d.py", "E.f()"]
    assert [name for name in table_names(page) if is_file_name(name)] == ["a.py", "b/c.py", "b/d.py"]
    assert (exists("worker/heartbeat.py"), exists("stores/*/claim.py"), exists("heartbeat.py")) == (True, True, False)


def test_every_list_of_exceptions_belongs_to_a_check() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert [path.stem for path in LISTS.glob("*.txt") if f'"{path.stem}"' not in source] == []
