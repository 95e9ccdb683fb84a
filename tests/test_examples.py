"""Examples, README and docs do what they say; the reference pages name what there is."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import click
import pytest
from msgspec.structs import fields

import mainspring
from command_server import CommandServer
from kits import USERS_PYTEST
from mainspring import events
from mainspring.cli import main as cli
from mainspring.config import Settings, load
from mainspring.records.job import TRANSITIONS
from pages import ELSEWHERE, GENERATED, PAGES, ROOT, Block, blocks, commands, fits
from servers import Postgres, Redis

TIMEOUT_SECONDS = 120.0
POLL_SECONDS = 0.1
HERE = Path(__file__).resolve().parent
EXAMPLES = sorted(ROOT.glob("examples/*.py"))
# Read-only commands: repeated until their output matches the page, since a worker may still be running.
_READ_ONLY = "jobs list", "jobs show", "jobs logs", "queues list", "dead list", "why", "workers list", "top", "stats"
READ_ONLY = tuple(f"mainspring {command}" for command in _READ_ONLY)


def environ(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAINSPRING_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    return kept | {"PATH": path, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"} | USERS_PYTEST | more


# examples


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_prints_what_its_docstring_says(example: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    doc = ast.get_docstring(ast.parse(example.read_text())) or ""
    _, _, expected = doc.partition("Prints:\n")
    assert expected, f"{example.name} does not say what it prints"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example), *server_of(example, request)],
        cwd=tmp_path, env=environ(), capture_output=True, text=True, timeout=TIMEOUT_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert fits(expected.splitlines(), done.stdout, {}), done.stdout
    assert list(tmp_path.iterdir()) == [], "an example leaves nothing behind"


def server_of(example: Path, request: pytest.FixtureRequest) -> list[str]:
    """The URL of the server that an example is about, as its argument."""
    match example.stem:
        case "postgres":
            server: Postgres = request.getfixturevalue("postgres")
            return [server.dsn]
        case "redis_store":
            other: Redis = request.getfixturevalue("redis")
            return [f"redis://127.0.0.1:{other.port}/0"]
    return []


@pytest.mark.parametrize(
    ("example", "count"),
    [("testing_example.py", 3), ("onboarding.py", 4), ("testing_flow.py", 4), ("testing_harness.py", 4)],
)
def test_an_example_of_tests_runs_under_pytest(example: str, count: int, tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples" / example, tmp_path / "test_reminders.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_reminders.py"],
        cwd=tmp_path, env=environ(), capture_output=True, text=True, timeout=TIMEOUT_SECONDS,
    )  # fmt: skip
    assert f"{count} passed" in done.stdout, done.stdout + done.stderr
    assert not list(tmp_path.glob("*.db"))


def test_every_example_is_named_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    assert [path.name for path in EXAMPLES if f"(../examples/{path.name})" not in index] == []


# pages that run


class Player:
    """Plays one page in a directory of its own."""

    def __init__(self, folder: Path, programs: Path) -> None:
        """`programs` comes first in PATH."""
        self.folder = folder
        self.environ = environ()
        self.environ["PATH"] = f"{programs}{os.pathsep}{self.environ['PATH']}"
        self.ids: dict[str, str] = {}
        self._session: subprocess.Popen[str] | None = None
        self._beside: subprocess.Popen[bytes] | None = None

    def play(self, page: Path) -> None:
        steps = blocks(page)
        for step, follower in zip_longest(steps, steps[1:]):
            if not step.runs:
                continue
            if step.language == "python" and step.file:
                (self.folder / step.file).write_text(step.text)
            elif step.language == "python":
                said = follower.text if follower and follower.language == "text" and follower.follows else None
                self._python(step, said)
            elif step.language == "console" and step.text.startswith(ELSEWHERE):
                self._beside_us(step)
            elif step.language == "console":
                self._console(step)
        self._end_beside()

    def _python(self, block: Block, expected: str | None) -> None:
        if self._session is None:
            self._session = subprocess.Popen(
                [sys.executable, "-W", "error", str(HERE / "session.py")],
                cwd=self.folder, env=self.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
        assert self._session.stdin is not None
        assert self._session.stdout is not None
        self._session.stdin.write(json.dumps({"text": block.text, "place": block.place}) + "\n")
        self._session.stdin.flush()
        ready, _, _ = select.select([self._session.stdout], [], [], TIMEOUT_SECONDS)
        assert ready, f"{block.place} has not ended after {TIMEOUT_SECONDS:.0f} s"
        answer = json.loads(self._session.stdout.readline())
        assert not answer["error"], f"{block.place}\n{answer['error']}"
        if expected is not None:
            assert fits(expected.splitlines(), answer["printed"], self.ids), f"{block.place}\n{answer['printed']}"

    def _console(self, block: Block) -> None:
        for words, says in commands(block):
            if setting := re.fullmatch(r"export (\w+)=(?:(\S+)|\$\((.+)\))", words):
                self.environ[setting[1]] = setting[2] or self._said(setting[3])
                continue
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while True:
                done = self._run(words)
                right = fits(says, done.stdout, self.ids) if says else done.returncode == 0
                if right or not words.startswith(READ_ONLY) or time.monotonic() > deadline:
                    break
                time.sleep(POLL_SECONDS)
            assert right, f"{block.place} $ {words}\n{done.stdout}"

    def _said(self, words: str) -> str:
        return subprocess.run(
            ["/bin/sh", "-c", words], cwd=self.folder, env=self.environ, timeout=TIMEOUT_SECONDS, text=True, check=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        ).stdout.strip()  # fmt: skip

    def _run(self, words: str) -> subprocess.CompletedProcess[str]:
        for page, real in self.ids.items():
            words = words.replace(page, real)
        return subprocess.run(
            ["/bin/sh", "-c", words],
            cwd=self.folder, env=self.environ, timeout=TIMEOUT_SECONDS, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def _beside_us(self, block: Block) -> None:
        self._end_beside()
        ((words, says),) = commands(block)
        if words.startswith("mainspring server "):
            words += " --port 0"
        log = self.folder / ".said"
        with log.open("wb") as out:
            self._beside = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {words}"],
                cwd=self.folder, env=self.environ, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            )  # fmt: skip
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not fits(says, log.read_text(), self.ids, whole=False):
            assert time.monotonic() < deadline, f"{block.place}\n{log.read_text()}"
            assert self._beside.poll() is None, f"{block.place} ended\n{log.read_text()}"
            time.sleep(0.05)

    def _end_beside(self) -> None:
        if self._beside is not None:
            ended, self._beside = self._beside, None
            ended.send_signal(signal.SIGINT)  # Ctrl-C
            assert ended.wait(TIMEOUT_SECONDS) == 0, (self.folder / ".said").read_text()

    def close(self) -> None:
        for process in (self._session, self._beside):
            if process is not None:
                process.kill()
                process.communicate()


@pytest.fixture(scope="module")
def commands_folder() -> Iterator[Path]:
    server = CommandServer()
    yield server.folder
    server.close()


@pytest.fixture
def player(tmp_path: Path, commands_folder: Path) -> Iterator[Player]:
    player = Player(tmp_path, commands_folder)
    yield player
    player.close()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_commands_and_code_of_a_page_run_as_shown(page: Path, player: Player) -> None:
    player.play(page)


@pytest.mark.parametrize(
    "page",
    [
        "```console\n$ printf 'a\\nb\\n'\na\n```",
        "```console\n$ printf 'a\\n'\na\nb\n```",
        "```console\n$ false\n```",
        "```python\nprint(1)\n```\n\n```text\n2\n```",
        "```python\n1 / 0\n```",
        "```python\n# file: x.py\nprint(1)\n```\n```console\n$ python x.py\n2\n```",
        "```console\n# in another terminal\n$ false\nready\n```",
    ],
)
def test_a_page_with_wrong_output_or_failing_code_fails_its_check(page: str, player: Player, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.md"
    wrong.write_text(f"# Wrong\n\n{page}\n")
    with pytest.raises(AssertionError):
        player.play(wrong)


def test_an_id_on_a_page_stands_for_one_real_id() -> None:
    page, real, other = (f"0190000{n}-0000-7000-8000-000000000000" for n in (1, 2, 3))
    ids: dict[str, str] = {}
    assert fits([f"{page} … 2s ago"], f"{real} and more  59m ago\n", ids)
    assert ids == {page: real}
    assert not fits([page], other, ids)
    assert fits([page, "…", "end"], f"{real}\nx\ny\nend", ids)


def missing_imports(page: Path) -> Iterator[str]:
    """Names that a page imports and that do not exist. Raises SyntaxError if a block does not compile."""
    for block in blocks(page):
        if block.language != "python":
            continue
        code = compile(block.text, block.place, "exec", flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for node in ast.walk(code):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mainspring"):
                module = importlib.import_module(node.module or "")
                for alias in node.names:
                    of_a_project = (module.__name__, alias.name) == ("mainspring.django", "app")
                    if not of_a_project and not hasattr(module, alias.name):
                        yield f"{block.place}: {node.module} has no {alias.name}"


def test_python_blocks_of_pages_compile_and_import_existing_names() -> None:
    assert [offence for page in PAGES for offence in missing_imports(page)] == []


def test_no_output_is_shown_without_the_command_that_makes_it() -> None:
    lonely = [block.place for page in PAGES for block in blocks(page) if block.language == "text" and block.runs
              and not block.follows]  # fmt: skip
    assert lonely == []


# links


def broken_links(page: Path) -> Iterator[str]:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if target in GENERATED:
            continue
        if not target.exists():
            yield f"{page.name} links to {link}"
        elif anchor and anchor not in anchors(target):
            yield f"{page.name} links to {link}; there are {sorted(anchors(target))}"


def test_relative_links_of_pages_lead_to_existing_files_and_headings() -> None:
    assert [offence for page in PAGES for offence in broken_links(page)] == []


def anchors(page: Path) -> set[str]:
    """The names GitHub gives to a page's headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_page_of_docs_is_linked_from_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    assert [page.name for page in PAGES if page.parent == ROOT / "docs" and page.name != "index.md"
            and f"({page.name})" not in index] == []  # fmt: skip


# reference pages


def rows(page: str) -> list[list[str]]:
    """The cells of every table row of a page, without code marks."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("|") and not set(line) <= set("|-: ")]
    return [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in lines]


def test_settings_page_has_every_setting_with_its_variable_and_default() -> None:
    table = {row[0]: row for row in rows("settings.md") if len(row) == 4 and row[1].startswith("MAINSPRING_")}
    assert list(table) == [field.name for field in fields(Settings)]
    for name, (_, variable, default, meaning) in table.items():
        assert variable == f"MAINSPRING_{name.upper()}"
        given = {} if default == "empty" else {name: default}
        assert getattr(load(given, {}), name) == getattr(Settings(), name), f"default of {name}"
        assert meaning


def leaves(command: click.Command, path: str = "mainspring") -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by its full name."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        yield from leaves(child, f"{path} {name}")


def sections(page: str) -> dict[str, str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    parts = re.split(r"^#+ (.+)$", text, flags=re.MULTILINE)[1:]
    return {title.strip("`"): body for title, body in zip(parts[::2], parts[1::2], strict=True)}


COMMANDS = dict(leaves(cli))


def test_cli_page_has_a_section_for_every_command_and_no_other() -> None:
    assert {title for title in sections("cli.md") if title.startswith("mainspring ")} == set(COMMANDS)


def option_offences(name: str) -> Iterator[str]:
    """Options of a command that its section of the CLI page lacks, or has and should not."""
    section = sections("cli.md").get(name, "")
    for shared in ("Choosing jobs", "Saying when"):
        if f"(#{shared.lower().replace(' ', '-')})" in section:
            section += sections("cli.md")[shared]
    named = set(re.findall(r"^\| `(--[\w-]+)", section, re.MULTILINE))
    options = [param for param in COMMANDS[name].params if isinstance(param, click.Option)]
    if wrong := named ^ {option.opts[0] for option in options}:
        yield f"{name}: {sorted(wrong)} stand in the section or in the command, not in both"
    # What is shown in the section's commands exists too.
    for block in re.findall(r"^```console\n(.*?)^```$", section, re.MULTILINE | re.DOTALL):
        used = set(re.findall(r"(?<=\s)(--[\w-]+)", "\n".join(re.findall(rf"^\$ {name}.*$", block, re.MULTILINE))))
        if unknown := used - named - {"--app", "--store"}:
            yield f"{name} has no {sorted(unknown)}"


def test_cli_page_names_every_option_of_a_command_and_no_other() -> None:
    assert [offence for name in COMMANDS for offence in option_offences(name)] == []


def test_errors_page_names_every_error_class() -> None:
    text = (ROOT / "docs" / "errors.md").read_text()
    errors = [name for name, value in vars(mainspring.errors).items() if _is_error(value)]
    assert [name for name in errors if not re.search(rf"\b{name}\b", text)] == []


def _is_error(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, mainspring.MainspringError)


def test_events_page_names_every_event() -> None:
    text = (ROOT / "docs" / "extending.md").read_text()
    kinds = [
        name for name, value in vars(events).items() if isinstance(value, type) and issubclass(value, events.Event)
    ]
    assert [name for name in kinds if f"`{name}`" not in text] == []


def test_the_state_diagram_is_the_table_of_transitions() -> None:
    drawn = re.findall(r"^    (\w+) --> (\w+)", (ROOT / "docs" / "design.md").read_text(), re.MULTILINE)
    table = [(start, end) for start, ends in TRANSITIONS.items() for end in ends]
    assert sorted(drawn) == sorted((str(start), str(end)) for start, end in table)


def test_every_public_name_is_in_the_docs() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES if page.parent == ROOT / "docs")
    assert [name for name in mainspring.__all__ if not re.search(rf"\b{name}\b", text)] == []
