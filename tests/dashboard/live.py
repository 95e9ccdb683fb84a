"""An app with a worker and the server on a SQLite file, in its own thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar, get_args

from litestar.types import ASGIApp
from stories import Cues, stories

from mainspring import Mainspring
from mainspring.api.server import Server, listen, url_of
from mainspring.records.api_key import Role

# Seconds that a call of the app may take.
LIMIT = 30
T = TypeVar("T")


class Live:
    """Serves as soon as it is created. `under` is the path at which `wrap` mounts the app in another one."""

    def __init__(
        self, folder: Path, *, app: Mainspring | None = None, auth: bool = True, works: bool = True, keys: bool = True,
        wrap: Callable[[ASGIApp], ASGIApp] | None = None, under: str = "", **settings: Any,
    ) -> None:  # fmt: skip
        self.cues = Cues()
        given = {"beat": 0.2, "sweep": 0.2, "grace": 0.1, "durability": "relaxed", "log_level": "error", **settings}
        self.app = app or stories(Mainspring(f"sqlite:///{folder}/jobs.db", **given), self.cues)
        self.keys: dict[str, str] = {}
        self._roles: tuple[Role, ...] = get_args(Role) if keys else ()
        service = self.app.asgi(auth=auth)
        self._works, self._ready = works, threading.Event()
        self._server = Server(wrap(service) if wrap else service, grace=1, ready=self._ready.set)
        self._listener = listen("127.0.0.1", 0)
        self.origin = url_of(self._listener)
        self.address = self.origin + under
        self._thread = threading.Thread(target=lambda: asyncio.run(self._life()), name="live", daemon=True)
        self._thread.start()
        if not self._ready.wait(LIMIT):
            raise RuntimeError("the server did not start")

    async def _life(self) -> None:
        self.loop = asyncio.get_running_loop()
        async with self.app:
            for role in self._roles:
                self.keys[role] = await self.app.keys.create(role, role)
            if not self._works:
                await self._server.run(self._listener)
                return
            async with self.app.worker() as self.worker:
                await self._server.run(self._listener)

    def do(self, call: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine of the app: `live.do(live.app.queues.pause("mail"))`."""
        return asyncio.run_coroutine_threadsafe(call, self.loop).result(LIMIT)

    def enqueue(self, task: str, /, *args: Any, options: dict[str, Any] | None = None, **kwargs: Any) -> str:
        """The id of a new job."""
        one = self.app.tasks[task]
        return str(self.do((one.using(**options) if options else one).enqueue(*args, **kwargs)).id)

    def cue(self, name: str, *cue: Any) -> None:
        """Tells the job of this name what to do next: ("progress", 3, 10, "rows"), ("log", "…"), ("end", value)."""
        self.loop.call_soon_threadsafe(self.cues[name].put_nowait, cue)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self._server.stop)
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()
