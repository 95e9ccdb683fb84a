"""Two ways to show a scene: the live screen, and plain lines."""

from __future__ import annotations

from typing import Any, Protocol

from rich.console import Console
from rich.live import Live

from .scene import Scene
from .screen import screen


class View(Protocol):
    every: float
    """Seconds between two scenes."""

    def __enter__(self) -> Any: ...
    def __exit__(self, *_: Any) -> None: ...
    def show(self, scene: Scene) -> None: ...


class LiveView:
    """The whole terminal, redrawn; it grows and shrinks with the window."""

    every = 0.25

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, screen=True, auto_refresh=False)

    def __enter__(self) -> None:
        self._live.__enter__()

    def __exit__(self, *_: Any) -> None:
        self._live.stop()

    def show(self, scene: Scene) -> None:
        self._live.update(screen(scene), refresh=True)


class PlainView:
    """A line a second, for pipes, logs and --plain."""

    every = 1.0

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun = self._draining = False

    def __enter__(self) -> None: ...

    def __exit__(self, *_: Any) -> None: ...

    def show(self, scene: Scene) -> None:
        if not self._begun:
            self._begun = True
            self._print(f"worker {scene.worker} on {scene.store}, {scene.slots} slots; Ctrl-C ends it")
        elif scene.draining and not self._draining:
            self._draining = True
            self._print(f"draining: {scene.stats.running} running may finish, nothing new is started")
        else:
            self._print(_line(scene))

    def _print(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)
        self._console.file.flush()


def _line(scene: Scene) -> str:
    stats, total = scene.stats, scene.tally.total
    return (
        f"{scene.elapsed:3.0f}s {scene.tally.rate():5.1f} jobs/s | done {total.completed} retried {total.retried}"
        f" dead {total.dead} | pending {stats.pending} scheduled {stats.scheduled} running {stats.running}"
    )
