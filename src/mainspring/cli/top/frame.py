"""The whole picture: what goes where, from 60 columns by 20 rows up."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ...records.job import Shown
from ...records.queue import Queue
from ...records.worker import WorkerRow
from .. import render, stats_page
from ..messages import clean
from ..worker_page import STATES, slots
from .panes import PANES, cut, more
from .snapshot import Scene
from .view import PANES as NAMES
from .view import TopView

# From this width on queues and workers stand side by side.
BESIDE = 80
# Rows of each list when there is no window to fit into.
ROWS = 21
# The share of the rows below throughput that they may take.
LISTS = 0.6
# From this height on the bars of throughput are higher.
TALL = 30


class Frame:
    """Fills the window, however large."""

    def __init__(self, view: TopView) -> None:
        self._view = view

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, height = options.max_width, options.height or console.height
        upper = list(_upper(self._view, width, tall=height >= TALL))
        lines = _lines(console, options, Group(*upper))
        if self._view.scene is not None:
            room = max(2, height - len(lines) - 2)
            lines += _lines(console, options, _lists(self._view.scene, width, int(room * LISTS)))
            lines += _lines(console, options, _tabs(self._view, self._view.scene, width))
            pane = PANES[self._view.pane](self._view.scene, width, max(1, height - 1 - len(lines)))
            lines += _lines(console, options, pane)
        lines = lines[: height - 1]
        lines += [[] for _ in range(height - 1 - len(lines))]
        lines += _lines(console, options, _footer(self._view, width))
        for n, line in enumerate(lines[:height]):
            if n:
                yield Segment.line()
            yield from line


def _lines(console: Console, options: ConsoleOptions, part: RenderableType) -> list[list[Segment]]:
    return console.render_lines(part, options.update(height=None), pad=False)


def whole(view: TopView, width: int) -> Group:
    """Everything, one below the other, for pipes and --once."""
    assert view.scene is not None
    scene, parts = view.scene, [*_upper(view, width), Text()]
    parts += [_queues(scene, ROWS), Text(), _workers(scene, ROWS)]
    for name, pane in zip(NAMES, PANES, strict=True):
        parts += [Text(), _heading(Text(name, "bold"), width), pane(scene, width, ROWS)]
    return Group(*parts)


# above


def _upper(view: TopView, width: int, *, tall: bool = False) -> Iterator[RenderableType]:
    yield _header(view, width)
    if view.trouble:
        lasted = (view.now - view.since).total_seconds() if view.now and view.since else 0.0
        said = f" for {render.span(lasted)}" if lasted >= 1 else ""
        yield Text(f"✗ the store is in trouble{said}: {clean(view.trouble)}", "bold red")
    if view.scene is None:
        if not view.trouble:
            yield Text("  looking …", "dim")
        return
    stats = view.scene.stats
    yield stats_page.by_state(stats, width)
    yield _heading(stats_page.summary(stats.total, "last hour", "1h", width), width)
    yield from stats_page.throughput(stats.series, width, newest=True, height=3 if tall else 1)


def _header(view: TopView, width: int) -> Table:
    line = Table.grid(expand=True, padding=(0, 2, 0, 0))
    line.add_column(no_wrap=True)
    line.add_column(no_wrap=True, overflow="ellipsis", ratio=1, style="dim")
    line.add_column(no_wrap=True)
    line.add_column(no_wrap=True)
    health = Text("✗ trouble", "bold red") if view.trouble else Text("✓ ready", "green")
    if view.paused:
        health = Text("‖ paused  ", "bold magenta").append_text(health)
    time = f"{view.now:%H:%M:%S}Z" if view.now else ""
    title = Text(view.title, "bold")
    if view.note:
        title.append(f"  {view.note}", "bold yellow")
    line.add_row(title, render.line(view.store), health if view.store else "", time)
    return line


def _heading(title: Text, width: int) -> Text:
    rest = width - title.cell_len - 1
    heading = title.copy()
    if rest > 0:
        heading.append(f" {'─' * rest}", "dim")
    heading.no_wrap, heading.overflow = True, "ellipsis"
    return heading


# queues and workers


def _lists(scene: Scene, width: int, room: int) -> RenderableType:
    if width < BESIDE:
        rows, queues, workers = room - 2, max(1, len(scene.stats.queues)), max(1, len(scene.workers))
        low = min(workers, max(1, rows // 2, rows - queues))
        return Group(_queues(scene, 1 + max(1, rows - low)), _workers(scene, 1 + low))
    beside = Table.grid(expand=True, padding=(0, 2, 0, 0))
    beside.add_column(ratio=1)
    beside.add_column(ratio=1)
    beside.add_row(_queues(scene, room), _workers(scene, room))
    return beside


def _queues(scene: Scene, room: int) -> Table:
    table = _counts("queue", "pend", "sched", "retry", "run", "wait")
    queues = scene.stats.queues
    if len(queues) >= room:
        queues = sorted(queues, key=lambda queue: (-queue.pending - queue.running - queue.retrying, queue.name))
    shown, left = cut(queues, room - 1)
    for queue in shown:
        mark = ("‖", "magenta", "paused") if queue.paused else ("►", "green", "")
        table.add_row(_named(queue.name, *mark), *_waiting(queue), _wait(scene, queue))
    if not queues:
        table.add_row(Text("none", "dim"))
    return more(table, left)


def _waiting(queue: Queue) -> list[Text]:
    counts: dict[Shown, int] = {
        "pending": queue.pending, "scheduled": queue.scheduled, "retrying": queue.retrying, "running": queue.running,
    }  # fmt: skip
    return [Text(short(count), render.STATES[state][1] if count else "dim") for state, count in counts.items()]


def _wait(scene: Scene, queue: Queue) -> Text:
    waited = scene.waits.get(queue.name)
    if waited is None:
        return Text("–", "dim")
    seconds = waited.total_seconds()
    return Text(render.span(seconds), "bold red" if seconds >= 300 else "yellow" if seconds >= 60 else "")


def _workers(scene: Scene, room: int) -> Table:
    table = _counts("worker", "run", "leak", "mem", "beat")
    workers = scene.workers
    if len(workers) >= room:
        workers = sorted(
            workers, key=lambda one: (-one.info.leaked, not one.info.drained, -one.info.running, one.info.id)
        )
    shown, left = cut(workers, room - 1)
    for worker in shown:
        table.add_row(*_worker(worker, scene))
    if not workers:
        waits = scene.stats.pending + scene.stats.retrying
        table.add_row(Text("✗ none is alive", "bold red") if waits else Text("none is alive", "dim"))
    return more(table, left)


def _worker(worker: WorkerRow, scene: Scene) -> list[Text]:
    info, state = worker.info, worker.state
    age = None if worker.beat_at is None else max(0.0, (scene.now - worker.beat_at).total_seconds())
    late = age is not None and age > info.lease / 2
    return [
        _named(info.id, *STATES[state], "" if state == "open" else state),
        Text(slots(worker), "bold" if info.running >= info.concurrency else ""),
        Text(str(info.leaked), "bold red" if info.leaked else "dim"),
        Text(render.size(info.memory) if info.memory else "–"),
        Text("–" if age is None else render.span(age), "bold red" if late else ""),
    ]


def _named(name: str, symbol: str, style: str, word: str) -> Text:
    """The name behind a symbol, and the word if there is one and room for it."""
    line = Text(f"{symbol} ", style, no_wrap=True, overflow="ellipsis")
    return line.append(render.line(name).plain, "default").append(f" {word}" if word else "")


def _counts(*titles: str) -> Table:
    table = render.grid(*titles, cut=titles[:1])
    table.expand = True
    table.columns[0].ratio = 1
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def short(count: int) -> str:
    """9,999, 12.3k, 1.2M: never more than five characters."""
    for step, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= max(step, 10_000):
            tenths = count * 10 // step
            return f"{tenths / 10:.1f}{unit}" if tenths < 1000 else f"{tenths // 10}{unit}"
    return f"{count:,}"


# below


def _tabs(view: TopView, scene: Scene, width: int) -> Text:
    counts = (scene.stats.running, scene.stats.total.failed, scene.stats.dead, len(scene.ticking))
    title = Text()
    for n, (name, count) in enumerate(zip(NAMES, counts, strict=True)):
        text = f"{n + 1} {name} {short(count)}"
        title.append(f"[{text}] " if n == view.pane else f" {text}  ", "bold" if n == view.pane else "dim")
    title.rstrip()
    return _heading(title, width)


def _footer(view: TopView, width: int) -> Table:
    line = Table.grid(expand=True)
    line.add_column(no_wrap=True, overflow="ellipsis", ratio=1, style="dim")
    line.add_column(no_wrap=True, style="dim")
    keys = f"q quit  p {'go on' if view.paused else 'pause'}  1 2 3 4 tab pane"
    took = f"  look {render.span(view.scene.took)}" if view.scene else ""
    line.add_row(keys, f"every {view.interval:g}s{took}")
    return line
