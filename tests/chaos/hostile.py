"""Jobs whose outcome is hard to decide, and their worker: python hostile.py URL LOG SETTINGS"""

from __future__ import annotations

import asyncio
from typing import Any

import victim
from audit import Log

from mainspring import Mainspring, Retry, Snooze


class Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit("no words")

    __repr__ = __str__

    def __reduce__(self) -> Any:
        raise KeyboardInterrupt


class Nobody(BaseException):
    """An exception that no program catches by accident."""


class _Unasked(type):
    def __instancecheck__(cls, instance: object) -> bool:
        raise SystemExit("do not ask")


class Picky(Exception, metaclass=_Unasked):
    pass


class Faceless(Exception):
    @property
    def __class__(self) -> Any:  # type: ignore[override]
        raise SystemExit("no face")

    @__class__.setter
    def __class__(self, value: Any) -> None: ...


class Unkept:
    """A result that raises while it is encoded."""

    @property
    def model_dump(self) -> Any:
        raise SystemExit("not to be kept")


def mute() -> None:
    raise Mute


def nobody() -> None:
    raise Nobody("here")


def faceless() -> None:
    raise Faceless


def retried_at_no_time() -> None:
    steer = Retry(1)
    steer.after = "soon"  # type: ignore[assignment]
    raise steer


def snoozed_at_no_time() -> None:
    steer = Snooze(1)
    steer.delay = "soon"  # type: ignore[assignment]
    raise steer


def fails() -> None:
    raise ValueError("as always")


def unkept() -> Any:
    return Unkept()


# Jobs that are dead after one run if they have no retries.
POISONS = (mute, nobody, faceless, retried_at_no_time, snoozed_at_no_time)


def make(url: str, log: Log | None = None, **settings: Any) -> Mainspring:
    app = victim.make(url, log, **settings)
    for poison in (*POISONS, unkept):
        app.task(name=f"{poison.__name__}-thread", max_retries=0)(poison)
        app.task(name=f"{poison.__name__}-process", max_retries=0, executor="process")(poison)
        app.task(name=f"{poison.__name__}-async", max_retries=0)(_later(poison))
    app.task(retry_on=Picky)(fails)
    app.task(name="backs-off")(_later(fails))
    return app


def _later(poison: Any) -> Any:
    async def later() -> Any:
        await asyncio.sleep(0)
        return poison()

    return later


def main() -> None:
    url, log, settings = victim.arguments()
    asyncio.run(make(url, log, **settings).worker().run())


if __name__ == "__main__":
    main()
