"""Frame: the layout of the view, from 60 columns by 20 rows up."""

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
from .panes import PANES, add_more_row, fit
from .snapshot import TopSnapshot
from .view import PANE_NAMES as NAMES
from .view import TopView

# From this width on queues and workers are side by side.
SIDE_BY_SIDE_COLUMNS = 80
# Rows of each list if there is no window to fit into.
LIST_ROWS = 21
# The share of the rows below the throughput that queues and workers may take.
LISTS_SHARE = 0.6
# From this height on the bars of the throughput are higher.
TALL_ROWS = 30


class Frame:
    """Renders the view to the size of the window."""

    def __init__(self, view: TopView) -> None:
        self._view = view

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, height = options.max_width, options.height or console.height
        upper = list(_upper(self._view, width, tall=height >= TALL_ROWS))
        lines = _lines(console, options, Group(*upper))
        if self._view.snapshot is not None:
            room = max(2, height - len(lines) - 2)
            lines += _lines(console, options, _lists(self._view.snapshot, width, int(room * LISTS_SHARE)))
            lines += _lines(console, options, _tabs(self._view, self._view.snapshot, width))
            pane = PANES[self._view.pane](self._view.snapshot, width, max(1, height - 1 - len(lines)))
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


def full_page(view: TopView, width: int) -> Group:
    """All parts below each other, for pipes and --once."""
    assert view.snapshot is not None
    snapshot, parts = view.snapshot, [*_upper(view, width), Text()]
    parts += [_queues(snapshot, LIST_ROWS), Text(), _workers(snapshot, LIST_ROWS)]
    for name, pane in zip(NAMES, PANES, strict=True):
        parts += [Text(), _heading(Text(name, "bold"), width), pane(snapshot, width, LIST_ROWS)]
    return Group(*parts)


# top


def _upper(view: TopView, width: int, *, tall: bool = False) -> Iterator[RenderableType]:
    yield _header(view, width)
    if view.trouble:
        lasted = (view.now - view.since).total_seconds() if view.now and view.since else 0.0
        duration = f" for {render.span(lasted)}" if lasted >= 1 else ""
        yield Text(f"✗ the store is in trouble{duration}: {clean(view.trouble)}", "bold red")
    if view.snapshot is None:
        if not view.trouble:
            yield Text("  looking …", "dim")
        return
    stats = view.snapshot.stats
    yield stats_page.state_line(stats, width)
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


def _lists(snapshot: TopSnapshot, width: int, room: int) -> RenderableType:
    if width < SIDE_BY_SIDE_COLUMNS:
        rows, queues, workers = room - 2, max(1, len(snapshot.stats.queues)), max(1, len(snapshot.workers))
        low = min(workers, max(1, rows // 2, rows - queues))
        return Group(_queues(snapshot, 1 + max(1, rows - low)), _workers(snapshot, 1 + low))
    columns = Table.grid(expand=True, padding=(0, 2, 0, 0))
    columns.add_column(ratio=1)
    columns.add_column(ratio=1)
    columns.add_row(_queues(snapshot, room), _workers(snapshot, room))
    return columns


def _queues(snapshot: TopSnapshot, room: int) -> Table:
    table = _counts("queue", "pend", "sched", "retry", "run", "wait")
    queues = snapshot.stats.queues
    if len(queues) >= room:
        queues = sorted(queues, key=lambda queue: (-queue.pending - queue.running - queue.retrying, queue.name))
    shown, left = fit(queues, room - 1)
    for queue in shown:
        mark = ("‖", "magenta", "paused") if queue.paused else ("►", "green", "")
        table.add_row(_named(queue.name, *mark), *_queue_counts(queue), _wait(snapshot, queue))
    if not queues:
        table.add_row(Text("none", "dim"))
    return add_more_row(table, left)


def _queue_counts(queue: Queue) -> list[Text]:
    counts: dict[Shown, int] = {
        "pending": queue.pending,
        "scheduled": queue.scheduled,
        "retrying": queue.retrying,
        "running": queue.running,
    }
    return [Text(short_count(count), render.STATES[state][1] if count else "dim") for state, count in counts.items()]


def _wait(snapshot: TopSnapshot, queue: Queue) -> Text:
    waited = snapshot.waits.get(queue.name)
    if waited is None:
        return Text("–", "dim")
    seconds = waited.total_seconds()
    return Text(render.span(seconds), "bold red" if seconds >= 300 else "yellow" if seconds >= 60 else "")


def _workers(snapshot: TopSnapshot, room: int) -> Table:
    table = _counts("worker", "run", "leak", "mem", "beat")
    workers = snapshot.workers
    if len(workers) >= room:
        workers = sorted(
            workers, key=lambda one: (-one.info.leaked, not one.info.drained, -one.info.running, one.info.id)
        )
    shown, left = fit(workers, room - 1)
    for worker in shown:
        table.add_row(*_worker(worker, snapshot))
    if not workers:
        waits = snapshot.stats.pending + snapshot.stats.retrying
        table.add_row(Text("✗ none is alive", "bold red") if waits else Text("none is alive", "dim"))
    return add_more_row(table, left)


def _worker(worker: WorkerRow, snapshot: TopSnapshot) -> list[Text]:
    info, state = worker.info, worker.state
    age = None if worker.beat_at is None else max(0.0, (snapshot.now - worker.beat_at).total_seconds())
    late = age is not None and age > info.lease / 2
    return [
        _named(info.id, *STATES[state], "" if state == "open" else state),
        Text(slots(worker), "bold" if info.running >= info.concurrency else ""),
        Text(str(info.leaked), "bold red" if info.leaked else "dim"),
        Text(render.size(info.memory) if info.memory else "–"),
        Text("–" if age is None else render.span(age), "bold red" if late else ""),
    ]


def _named(name: str, symbol: str, style: str, word: str) -> Text:
    """A symbol, the name, and the word if there is one."""
    line = Text(f"{symbol} ", style, no_wrap=True, overflow="ellipsis")
    return line.append(render.line(name).plain, "default").append(f" {word}" if word else "")


def _counts(*titles: str) -> Table:
    table = render.grid(*titles, cut=titles[:1])
    table.expand = True
    table.columns[0].ratio = 1
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def short_count(count: int) -> str:
    """9,999, 12.3k, 1.2M: at most five characters."""
    for step, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= max(step, 10_000):
            tenths = count * 10 // step
            return f"{tenths / 10:.1f}{unit}" if tenths < 1000 else f"{tenths // 10}{unit}"
    return f"{count:,}"


# bottom


def _tabs(view: TopView, snapshot: TopSnapshot, width: int) -> Text:
    counts = (snapshot.running_count, snapshot.stats.total.failed, snapshot.stats.dead, len(snapshot.schedules))
    title = Text()
    for n, (name, count) in enumerate(zip(NAMES, counts, strict=True)):
        text = f"{n + 1} {name} {short_count(count)}"
        title.append(f"[{text}] " if n == view.pane else f" {text}  ", "bold" if n == view.pane else "dim")
    title.rstrip()
    return _heading(title, width)


def _footer(view: TopView, width: int) -> Table:
    line = Table.grid(expand=True)
    line.add_column(no_wrap=True, overflow="ellipsis", ratio=1, style="dim")
    line.add_column(no_wrap=True, style="dim")
    keys = f"q quit  p {'go on' if view.paused else 'pause'}  1 2 3 4 tab pane"
    took = f"  read in {render.span(view.snapshot.took)}" if view.snapshot else ""
    line.add_row(keys, f"every {view.interval:g}s{took}")
    return line
