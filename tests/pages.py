"""The pages of the documentation as steps that can be played: files to write, code and commands to run.

How a page is read:
- a ```python block that begins with `# file: NAME` is written to NAME in the page's own directory;
- any other ```python block runs, in order, in the page's one Python session, where `await` may stand alone;
  a ```text block right after it is what it prints;
- in a ```console block a line `$ COMMAND` runs, and the lines below it are what it says; with
  `# in another terminal` on top the command goes on until the next such block or the end of the page;
- `<!-- not run: REASON -->` above a block: it only has to compile.

What is said is compared loosely: `…` is any text, a line `…` any lines; ids, worker names, times and spans
may differ, but an id on the page stands for one real id from then on. So does the address of a server, which gets
a port of its own.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
GENERATED = {*ROOT.glob("docs/benchmarks*.md")}
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")} - GENERATED)

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: .+ -->\s*\Z")
ELSEWHERE = "# in another terminal"

ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
_VARYING = (
    (re.compile(r"\b[\w.]+(?:-[\w.]+)*-\d+-[0-9a-f]{8}\b"), "<worker>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|\+00:00)?"), "<instant>"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "<time>"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s|m|h|d)\b"), "<span>"),
    (re.compile(r"\bin <span>|<span> ago|\bnow\b"), "<when>"),
)


class Block(NamedTuple):
    page: Path
    line: int
    language: str
    text: str
    runs: bool
    follows: bool
    """Nothing but blank lines stands between it and the block before."""

    @property
    def place(self) -> str:
        return f"{self.page.name}:{self.line}"

    @property
    def file(self) -> str | None:
        first = self.text.partition("\n")[0]
        return first.removeprefix("# file: ") if first.startswith("# file: ") else None


class Command(NamedTuple):
    words: str
    says: list[str]


def blocks(page: Path) -> list[Block]:
    text, found, end = page.read_text(encoding="utf-8"), [], 0
    for fence in _FENCE.finditer(text):
        between = text[end : fence.start()]
        line = text.count("\n", 0, fence.start()) + 1
        runs, follows = not _NOT_RUN.search(between), not between.strip()
        found.append(Block(page, line, fence[1], fence[2], runs, follows))
        end = fence.end()
    return found


def commands(block: Block) -> list[Command]:
    found: list[Command] = []
    for line in block.text.removeprefix(f"{ELSEWHERE}\n").splitlines():
        if line.startswith("$ "):
            found.append(Command(line.removeprefix("$ "), []))
        else:
            found[-1].says.append(line)
    return found


def plain(text: str) -> list[str]:
    """Lines without what differs from run to run."""
    for pattern, name in _VARYING:
        text = pattern.sub(name, text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def fits(expected: list[str], said: str, ids: dict[str, str], *, whole: bool = True) -> bool:
    """Whether this was said, as a whole or somewhere; learns which id each id on the page stands for."""
    wanted, got = "\n".join(expected), "\n".join(plain(said))
    learned = dict(ids)
    for kind in (ID, ADDRESS):
        shown = [page for page in dict.fromkeys(kind.findall(wanted)) if page not in ids]
        fresh = [real for real in dict.fromkeys(kind.findall(said)) if real not in ids.values()]
        learned |= dict(zip(shown, fresh, strict=False))
    for page, real in learned.items():
        wanted = wanted.replace(page, real)
    parts = [".*(?:\n.*)*" if line == "…" else re.escape(line).replace("…", ".*") for line in plain(wanted)]
    pattern = re.compile("\n".join(parts))
    if not (pattern.fullmatch(got) if whole else pattern.search(got)):
        return False
    ids.update(learned)
    return True
