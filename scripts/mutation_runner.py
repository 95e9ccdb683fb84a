"""Plays mutations in copies of the tree, several at once, and keeps the verdicts, so that a later run goes on."""
# ruff: noqa: T201

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from mutation_copy import PACKAGE, UNMUTATED_LIMIT_SECONDS, Copy, Mutation, Played

RESULTS = ".mutate/results.jsonl"
KILLED, TIMEOUT, SURVIVED, NOT_APPLICABLE = "killed", "timeout", "survived", "not-applicable"
PASSED, NO_VERDICT = "passed", "without a verdict"
# In the order of the summary; what it says before a name.
TO_LOOK_AT = {
    SURVIVED: "SURVIVED",
    NOT_APPLICABLE: "DOES NOT APPLY, its old text is not in its file exactly once",
    NO_VERDICT: "NO VERDICT",
}
# A play may take this many times as long as the unmutated tests did, and at least so long.
LIMIT_FACTOR, MIN_LIMIT_SECONDS = 4, 60.0
MEMORY, MEMORY_BYTES = Path("/dev/shm"), 4_000_000_000  # noqa: S108 (as in scripts/test)
PREFIX = "mainspring-mutate."


class Source:
    """The texts of a tree, each read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._digest = cache(self._read_digest)

    def applies(self, mutation: Mutation) -> bool:
        with suppress(FileNotFoundError):
            return (self.folder / PACKAGE / mutation.file).read_text(encoding="utf-8").count(mutation.old) == 1
        return False

    def fingerprint(self, mutation: Mutation) -> str:
        """Of the mutation, the file it changes and the tests that judge it: another one, another verdict."""
        places = [f"{PACKAGE}/{mutation.file}", *(word.partition("::")[0] for word in mutation.judges)]
        return _digest(mutation.file, mutation.old, mutation.new, *mutation.judges, *map(self._digest, places))

    def fingerprint_of_all(self, tests: tuple[str, ...]) -> str:
        return _digest(*tests, *map(self._digest, ("src", "tests", "pyproject.toml")))

    def _read_digest(self, place: str) -> str:
        path = self.folder / place
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        kept = [file for file in files if file.is_file() and "__pycache__" not in file.parts]
        return _digest(*(part for file in kept for part in (str(file.relative_to(self.folder)), file.read_bytes())))


def _digest(*parts: str | bytes) -> str:
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole.update(b"%d:%b" % (len(data), data))
    return whole.hexdigest()[:32]


class Result(NamedTuple):
    name: str
    fingerprint: str
    verdict: str
    seconds: float
    by: str = ""
    """The test that failed."""

    def __str__(self) -> str:
        shown = self.verdict if self.verdict in (KILLED, TIMEOUT) else self.verdict.upper()
        killer = f" by {self.by.rpartition('::')[2]}" if self.by else ""
        return f"{shown}{killer} ({self.seconds:.1f} s)"


class Results:
    """A file with a JSON line for each verdict, the last one of a name counts; runs may share it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: dict[str, Result] = {}
        with suppress(FileNotFoundError):
            for line in path.read_text(encoding="utf-8").splitlines():
                with suppress(ValueError, TypeError):  # a line that was cut off
                    result = Result(**json.loads(line))
                    self._last[result.name] = result

    def last(self, name: str) -> Result | None:
        return self._last.get(name)

    def find(self, name: str, fingerprint: str) -> Result | None:
        result = self._last.get(name)
        return result if result is not None and result.fingerprint == fingerprint else None

    def add(self, result: Result) -> None:
        self._last[result.name] = result
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a+b") as file:
            file.seek(max(0, file.tell() - 1))
            begin = b"" if file.read(1) in (b"", b"\n") else b"\n"
            file.write(begin + json.dumps(result._asdict()).encode() + b"\n")


class Run:
    """Plays mutations, as many at once as there are copies; the unmutated tests come before those that they judge."""

    def __init__(self, mutations: Sequence[Mutation], results: Results, limit: float | None, *, again: bool) -> None:
        self._todo, self._results, self._limit, self._again = list(mutations), results, limit, again
        self._number, self._total = 0, len(mutations)
        self._fingerprints: dict[str, str] = {}
        self._unmutated: dict[tuple[str, ...], Played | None] = {}
        self._news = asyncio.Event()
        self.verdicts: dict[str, Result] = {}
        self.red: list[str] = []
        """Tests that fail before anything is broken, and lists of tests that prove nothing."""

    async def play(self, root: Path, base: Path, jobs: int) -> None:
        first = Copy(root, root, base / "1")
        source = Source(first.tree)  # somebody may edit the original meanwhile
        self._fingerprints = {one.name: source.fingerprint(one) for one in self._todo}
        self._fingerprints |= {_unmutated(one.judges): source.fingerprint_of_all(one.judges) for one in self._todo}
        others = [Copy(first.tree, root, base / str(n)) for n in range(2, jobs + 1)]
        async with asyncio.TaskGroup() as group:
            for copy in (first, *others):
                group.create_task(self._work(copy))

    async def _work(self, copy: Copy) -> None:
        await copy.check()
        while self._todo:
            if mutation := next((one for one in self._todo if self._unmutated.get(one.judges)), None):
                self._todo.remove(mutation)
                await self._judge(copy, mutation)
            elif new := next((one for one in self._todo if one.judges not in self._unmutated), None):
                self._unmutated[new.judges] = None  # begun
                self._unmutated[new.judges] = await self._play_unmutated(copy, new.judges)
                self._news.set()
                self._news = asyncio.Event()
            else:
                await self._news.wait()

    async def _play_unmutated(self, copy: Copy, tests: tuple[str, ...]) -> Played:
        name = _unmutated(tests)
        fingerprint = self._fingerprints[name]
        if not self._again and (known := self._results.find(name, fingerprint)):
            return Played(0, [], known.seconds)
        played = await copy.play(tests, limit=UNMUTATED_LIMIT_SECONDS)
        if played.code == 0:
            self._results.add(Result(name, fingerprint, PASSED, played.seconds))
            return played
        red = played.failed if played.code == 1 else [f"pytest {' '.join(tests)}, which {played.reason}"]
        for test in red:
            print(f"red before anything was broken, so it proves nothing: {test}", flush=True)
        self.red += red
        return played

    async def _judge(self, copy: Copy, mutation: Mutation) -> None:
        unmutated = self._unmutated[mutation.judges]
        assert unmutated is not None
        if unmutated.code not in (0, 1):
            return self._tell(mutation, f"not played: its tests prove nothing, pytest {unmutated.reason}")
        limit = self._limit or max(MIN_LIMIT_SECONDS, LIMIT_FACTOR * unmutated.seconds)
        deselected = [f"--deselect={test}" for test in unmutated.failed]
        played = await copy.play_mutated(mutation, "-x", *deselected, limit=limit)
        verdict, by = _verdict(played)
        if verdict == TIMEOUT and (await copy.play(mutation.judges, *deselected, limit=limit)).code != 0:
            return self._tell(mutation, f"no verdict: unmutated, its tests do not pass within {limit:.0f} s either")
        result = Result(mutation.name, self._fingerprints[mutation.name], verdict, played.seconds, by)
        if verdict == SURVIVED and deselected:
            return self._tell(mutation, f"{result}, but no verdict: tests that may kill it are red")
        self._results.add(result)
        self.verdicts[result.name] = result
        return self._tell(mutation, str(result))

    def _tell(self, mutation: Mutation, said: str) -> None:
        self._number += 1
        print(f"{self._number:>3}/{self._total} {mutation.name:<48} {said}", flush=True)


def _unmutated(tests: tuple[str, ...]) -> str:
    """The name of their result."""
    return f"unmutated {' '.join(tests)}"


def _verdict(played: Played) -> tuple[str, str]:
    if played.code is None:
        return TIMEOUT, ""
    if played.code in (0, 5):
        return SURVIVED, ""
    return KILLED, (played.failed or [f"pytest, which ended with {played.code}"])[0]


# the command


def main(mutations: Sequence[Mutation], root: Path, words: list[str]) -> int:
    """The exit code: 1 if a mutation survives, no longer applies or has no verdict, 128 + N after signal N."""
    options = _parser().parse_args(words)
    results, source = Results(options.results or root / RESULTS), Source(root)
    chosen = _choose(mutations, root, options)
    if options.list:
        for mutation in chosen:
            print(f"{mutation.name:<48} {_last(mutation, source, results)}")
        return 0
    known = {} if options.again else _known(chosen, source, results)
    todo: list[Mutation] = []
    for mutation in chosen:
        if source.applies(mutation):
            todo += [mutation] if mutation.name not in known else []
        elif mutation.name not in known:
            known[mutation.name] = Result(mutation.name, source.fingerprint(mutation), NOT_APPLICABLE, 0.0)
            results.add(known[mutation.name])
    run = Run(todo, results, options.limit, again=options.again)
    ended_by = _play(run, root, min(options.jobs, len(todo))) if todo else None
    fine = _summarize(chosen, known | run.verdicts, ended_by)
    if ended_by is not None:
        return 128 + ended_by
    return 0 if fine and not run.red else 1


def _known(mutations: Sequence[Mutation], source: Source, results: Results) -> dict[str, Result]:
    found = (results.find(mutation.name, source.fingerprint(mutation)) for mutation in mutations)
    return {result.name: result for result in found if result is not None}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/mutate",
        description="Removes one fence at a time in a copy of the tree and expects the tests to go red. "
        "What has a verdict for the same texts is not played again. Exits 1 if one survives or no longer applies.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="these mutations; default: all")
    parser.add_argument("--changed", metavar="BASE", help="those whose file differs from this git revision")
    parser.add_argument("--part", type=_part, metavar="K/N", help="every N-th, from the K-th on")
    parser.add_argument("--jobs", type=_count, default=1, metavar="N", help="how many at once, in a copy each; 1")
    parser.add_argument("--again", action="store_true", help="play also what has a verdict")
    parser.add_argument("--list", action="store_true", help="print names and last verdicts, play nothing")
    limit = f"{LIMIT_FACTOR} times what the unmutated tests take, at least {MIN_LIMIT_SECONDS:.0f} s"
    parser.add_argument("--limit", type=float, metavar="SECONDS", help=f"end a play that takes longer; {limit}")
    parser.add_argument("--results", type=Path, metavar="FILE", help=f"where the verdicts are kept; {RESULTS}")
    return parser


def _count(word: str) -> int:
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"{word!r} is no number from 1 on")
    return int(word)


def _part(word: str) -> tuple[int, int]:
    one, _, all_ = word.partition("/")
    if not (one.isdecimal() and all_.isdecimal() and 1 <= int(one) <= int(all_)):
        raise argparse.ArgumentTypeError(f"{word!r} is no part such as 1/4 or 4/4")
    return int(one), int(all_)


def _choose(mutations: Sequence[Mutation], root: Path, options: argparse.Namespace) -> list[Mutation]:
    known = {mutation.name: mutation for mutation in mutations}
    if unknown := [name for name in options.names if name not in known]:
        print(f"no mutation {', '.join(unknown)}; scripts/mutate --list has the names", file=sys.stderr)
        sys.exit(2)
    chosen = [known[name] for name in dict.fromkeys(options.names)] or list(mutations)
    if options.changed is not None:
        changed = _changed(root, options.changed)
        chosen = [mutation for mutation in chosen if f"{PACKAGE}/{mutation.file}" in changed]
    if options.part is not None:
        one, all_ = options.part
        chosen = chosen[one - 1 :: all_]
    return chosen


def _changed(root: Path, base: str) -> set[str]:
    """The files that differ from this revision, those not yet committed included."""
    command = ["git", "diff", "--name-only", "--relative", "-z", "--end-of-options", base, "--", PACKAGE]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60)
    if done.returncode:
        print(f"git knows no changes since {base!r}: {done.stderr.strip()}", file=sys.stderr)
        sys.exit(2)
    return set(done.stdout.split("\0"))


def _last(mutation: Mutation, source: Source, results: Results) -> str:
    result = results.last(mutation.name)
    if result is None:
        return "-"
    same = result.fingerprint == source.fingerprint(mutation)
    return str(result) if same else f"{result}, before a change"


def _play(run: Run, root: Path, jobs: int) -> signal.Signals | None:
    """The signal that has ended it early, if one has."""
    for script in (["setup", "dev"], ["servers"]):
        subprocess.run([root / "scripts" / script[0], *script[1:]], check=True, stdout=sys.stderr)
    base = _base()
    try:
        return asyncio.run(_until_signalled(run.play(root, base, jobs)))
    finally:
        shutil.rmtree(base, ignore_errors=True)


async def _until_signalled(playing: Coroutine[Any, Any, None]) -> signal.Signals | None:
    task = asyncio.create_task(playing)
    came: list[signal.Signals] = []

    def end(signalled: signal.Signals) -> None:
        if not came:  # a second one does not disturb the end
            came.append(signalled)
            task.cancel()

    for signalled in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(signalled, end, signalled)
    with suppress(asyncio.CancelledError):
        await task
    return came[0] if came else None


def _base() -> Path:
    """A folder for the copies, in memory if there is room; removes those of runs that were killed."""
    memory = "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_BYTES
    place = MEMORY if memory else Path(tempfile.gettempdir())
    for left in place.glob(f"{PREFIX}*"):
        with suppress(ValueError, PermissionError):
            try:
                os.kill(int(left.suffix[1:]), 0)
            except ProcessLookupError:
                shutil.rmtree(left, ignore_errors=True)
    base = place / f"{PREFIX}{os.getpid()}"
    base.mkdir()
    base.chmod(0o755)
    return base


def _summarize(chosen: Sequence[Mutation], results: dict[str, Result], ended_by: signal.Signals | None) -> bool:
    """Whether all were killed."""
    verdicts = {mutation.name: getattr(results.get(mutation.name), "verdict", NO_VERDICT) for mutation in chosen}
    counts = Counter(verdicts.values())
    said = [f"{counts[verdict]} {verdict}" for verdict in (KILLED, TIMEOUT, *TO_LOOK_AT) if counts[verdict]]
    print(f"{len(chosen)} mutation{'s' * (len(chosen) != 1)}: {', '.join(said) or 'nothing to play'}")
    for name, verdict in verdicts.items():
        if verdict in TO_LOOK_AT and not (verdict == NO_VERDICT and ended_by):
            print(f"{TO_LOOK_AT[verdict]}: {name}")
    if ended_by is not None:
        print(f"interrupted by {ended_by.name}; the verdicts so far are kept")
    return counts.total() == counts[KILLED] + counts[TIMEOUT]
