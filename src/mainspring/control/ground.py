"""The services that every facade of control uses: the store, the clock, the event bus."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from ..clock import Clock
from ..config import Settings
from ..events import Bus
from ..store import Store
from ..task.task import Task
from ..webhook.dispatcher import WebhookDispatcher

Opened = Callable[[], Awaitable[Store]]


class Ground(Struct, frozen=True):
    opened: Opened
    clock: Clock
    events: Bus
    tasks: Mapping[str, Task[Any, Any]]
    settings: Settings
    crier: WebhookDispatcher
