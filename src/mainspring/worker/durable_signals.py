"""Signals that durable tasks wait for: ctx.signal()."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, cast

from msgspec import UNSET, Struct

from ..bounds import later
from ..clock import Clock
from ..errors import BadInput, SignalTimeout
from ..flow.signal_call import check_name
from ..records.flow import MAX_SIGNAL_NAMES, AwaitedSignal, Flow
from ..span import Span, seconds
from ..store import FlowStore, Store
from ..store.retry import StoreRetry
from ..task.context import Context
from ..task.step_values import signal_value

# A job that sleeps, and waits for signals, too, waits for one of this name until then. A signal that is given has a
# printable name.
_SLEEP = "\x1fsleep until "


class AskedSignal(Struct, frozen=True):
    """A call of ctx.signal()."""

    name: str
    type: Any
    seconds: float | None
    default: Any


class DurableSignals:
    """The signals that one run asks for."""

    def __init__(self, ctx: Context, clock: Clock, store_calls: Callable[[], tuple[Store, StoreRetry]]) -> None:
        self._ctx, self._clock, self._store_calls = ctx, clock, store_calls
        self._row: Flow | None = None
        self._is_read = False
        self._waits: dict[str, AwaitedSignal] = {}

    def asked(self, name: str, type: Any, timeout: Span | None, default: Any) -> AskedSignal:
        """Raises BadInput if there cannot be such a signal."""
        check_name(name)
        wait = None if timeout is None else seconds(timeout, "ctx.signal(timeout=…)")
        if wait is None and default is not UNSET:
            raise BadInput(f"signal {name!r}: default= is the value after the timeout: it needs a timeout=")
        return AskedSignal(name, type, wait, default)

    async def is_decided(self, asked: AskedSignal) -> bool:
        """Whether it was given, or its time is over. Read once in a run: what comes later makes the job due at once."""
        if not self._is_read:
            store, retry = self._store_calls()
            found = await retry("reading signals", lambda: cast(FlowStore, store).flows([self._ctx.job.id]))
            self._row, self._is_read = (found[0].row if found else None), True
        row = self._row
        return row is not None and (asked.name in row.inbox or asked.name in row.late)

    def value(self, asked: AskedSignal) -> Any:
        """The value of a signal that is decided."""
        given = None if self._row is None else self._row.inbox.get(asked.name)
        if given is None:
            if asked.default is not UNSET:
                return asked.default
            raise SignalTimeout(f"signal {asked.name!r} was not given in time")
        return signal_value(asked.name, given.value, asked.type)

    def wait(self, asked: AskedSignal) -> None:
        """The run will be suspended for this signal."""
        if len(self._waits) >= MAX_SIGNAL_NAMES:
            raise BadInput(f"signal {asked.name!r} is one too many: a job waits for up to {MAX_SIGNAL_NAMES} at once")
        deadline = None if asked.seconds is None else later(self._clock.now(), asked.seconds)
        self._waits.setdefault(asked.name, AwaitedSignal(asked.name, deadline))

    @property
    def waits(self) -> tuple[AwaitedSignal, ...]:
        """The signals that the run will be suspended for."""
        return tuple(self._waits.values())


def end_of_sleep(until: datetime) -> AwaitedSignal:
    """What a job waits for that sleeps beside something else that it waits for."""
    return AwaitedSignal(f"{_SLEEP}{until.isoformat()}", until)
