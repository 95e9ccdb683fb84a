"""Repetition: every case of a scenario in turn, again and again, on a machine as quiet as can be had."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from subprocess import SubprocessError

from .processes import Failed
from .redis_server import Cluster, Redis
from .server import Server

NOISE_LIMIT = 0.15  # share of one core used by others above which a measurement is made again
TIMEOUT_SECONDS = 600.0  # seconds a run may spend on waiting for a quiet machine and on measuring again


@dataclass(frozen=True)
class Figure:
    """One number a case yields."""

    name: str
    unit: str
    more_is_better: bool = False

    def best(self, values: list[float]) -> float:
        return max(values) if self.more_is_better else min(values)


class Lab:
    """Room on the disk for one run, and the servers that its measurements want."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._postgres: Server | None = None
        self._redis: Redis | None = None
        self._clusters: dict[int, Cluster] = {}
        self.built: set[str] = set()
        """Databases that stay for the run, because they take minutes to fill."""

    @property
    def postgres(self) -> Server:
        self._postgres = self._postgres or Server()
        return self._postgres

    @property
    def redis(self) -> Redis:
        self._redis = self._redis or Redis()
        return self._redis

    def cluster(self, masters: int) -> Cluster:
        if masters not in self._clusters:
            self._clusters[masters] = Cluster(masters)
        return self._clusters[masters]

    def _servers(self) -> list[Server | Redis | Cluster]:
        return [one for one in (self._postgres, self._redis, *self._clusters.values()) if one is not None]

    def close(self) -> None:
        for server in self._servers():
            server.close()

    def cpu_seconds(self) -> float:
        """Ours and that of children already waited for (a measurement leaves no others), and the servers'."""
        spent = os.times()
        own = spent.user + spent.system + spent.children_user + spent.children_system
        return own + sum(server.cpu_seconds() for server in self._servers())

    @contextmanager
    def fresh(self) -> Iterator[Path]:
        """An empty directory for one measurement, gone after it."""
        with tempfile.TemporaryDirectory(dir=self._root) as path:
            yield Path(path)

    def kept(self, name: str) -> Path:
        """A directory that all measurements under this name share."""
        path = self._root / name
        path.mkdir(exist_ok=True)
        return path


@dataclass(frozen=True)
class Case:
    """One system, or one setting of it. `measure` yields the scenario's figures by name."""

    system: str
    measure: Callable[[Lab], Mapping[str, float]]
    ours: bool = False


@dataclass(frozen=True)
class Scenario:
    """Cases that answer one question, and those among them the others are compared with."""

    name: str
    question: str
    figures: tuple[Figure, ...]
    cases: tuple[Case, ...]
    references: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Column heading -> systems; the best of them is the reference."""
    store: str = "SQLite"
    rounds: int = 100
    """The most it is measured, for what takes minutes."""

    def __post_init__(self) -> None:
        unknown = {system for named in self.references.values() for system in named} - {c.system for c in self.cases}
        if unknown:
            raise ValueError(f"{self.name} compares with {', '.join(sorted(unknown))}, which it does not measure")

    def repeated(self, repeat: int) -> int:
        return min(repeat, self.rounds)


@dataclass
class Series:
    """What the repetitions of one case gave."""

    values: dict[str, list[float]] = field(default_factory=dict)
    failure: str = ""

    def add(self, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self.values.setdefault(name, []).append(value)

    def median(self, figure: Figure) -> float:
        return statistics.median(self.values[figure.name])


@dataclass
class Results:
    """Everything one run has found."""

    series: dict[tuple[str, str], Series] = field(default_factory=dict)
    """(scenario, system) -> series"""
    noise: list[float] = field(default_factory=list)
    """Share of one core used by others, per accepted measurement."""

    def of(self, scenario: Scenario, case: Case) -> Series:
        return self.series.setdefault((scenario.name, case.system), Series())

    def reference(self, scenario: Scenario, name: str, figure: Figure) -> float | None:
        """The best median among the systems this reference names; None if all of them failed."""
        named = [self.of(scenario, c) for c in scenario.cases if c.system in scenario.references[name]]
        medians = [series.median(figure) for series in named if not series.failure]
        return figure.best(medians) if medians else None

    @property
    def failed(self) -> bool:
        return any(series.failure for series in self.series.values())


class Gate:
    """Lets a measurement pass that others did not disturb, or any once its patience is spent."""

    def __init__(self, patience: float) -> None:
        self._left = patience

    def measure(self, case: Case, lab: Lab) -> tuple[Mapping[str, float], float]:
        """The figures, and the share of a core that others used meanwhile."""
        while True:
            start = time.monotonic()
            self._wait_quiet(start + min(10.0, self._left))
            figures, noise = _once(case, lab)
            if noise <= NOISE_LIMIT or self._left <= 0:
                return figures, noise
            self._left -= time.monotonic() - start
            _say(f"(disturbed: {noise:.0%} of a core) ", end="")

    def _wait_quiet(self, end: float) -> None:
        while time.monotonic() < end:
            before = _machine_cpu()
            time.sleep(0.5)
            if (_machine_cpu() - before) / 0.5 < NOISE_LIMIT:
                return


def run(scenarios: list[Scenario], lab: Lab, *, repeat: int, patience: float) -> Results:
    """Rounds over the cases of each scenario, every other one backwards: no place is the lucky one."""
    results, gate = Results(), Gate(patience)
    total = sum(scenario.repeated(repeat) * len(scenario.cases) for scenario in scenarios)
    for step, (scenario, turn, case) in enumerate(_plan(scenarios, repeat), 1):
        series = results.of(scenario, case)
        if series.failure:
            continue
        _say(f"[{step}/{total}] {scenario.name}, round {turn}: {case.system} ", end="")
        try:
            figures, noise = gate.measure(case, lab)
        except (Failed, SubprocessError) as failure:
            series.failure = str(failure)
            _say(f"failed: {failure}")
            continue
        series.add(figures)
        results.noise.append(noise)
        shown = ", ".join(f"{f.name} {number(figures[f.name])} {f.unit}" for f in scenario.figures)
        _say(f"{shown} (others: {noise:.0%} of a core)")
    return results


def number(value: float) -> str:
    """Three significant digits, thousands set apart; a dash for what a system does not have."""
    if isnan(value):
        return "–"
    return f"{value:.3g}" if abs(value) < 999.5 else f"{float(f'{value:.3g}'):,.0f}"


def _plan(scenarios: list[Scenario], repeat: int) -> Iterator[tuple[Scenario, int, Case]]:
    for scenario in scenarios:
        for turn in range(1, scenario.repeated(repeat) + 1):
            for case in scenario.cases if turn % 2 else reversed(scenario.cases):
                yield scenario, turn, case


def _once(case: Case, lab: Lab) -> tuple[Mapping[str, float], float]:
    start, all_before, own_before = time.monotonic(), _machine_cpu(), lab.cpu_seconds()
    figures = case.measure(lab)
    others = _machine_cpu() - all_before - (lab.cpu_seconds() - own_before)
    return figures, max(0.0, others / (time.monotonic() - start))


def _machine_cpu() -> float:
    """Seconds all cores together have worked: user, nice, system, irq and softirq."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return sum(int(fields[i]) for i in (1, 2, 3, 6, 7)) / os.sysconf("SC_CLK_TCK")


def _say(text: str, *, end: str = "\n") -> None:
    print(text, end=end, file=sys.stderr, flush=True)
