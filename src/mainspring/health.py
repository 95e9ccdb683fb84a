"""Whether an app is alive and ready, and if not, why."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Literal

from msgspec import Struct

from .errors import StoreUnavailable
from .mask import mask_text
from .store import Store
from .survived_errors import SurvivedErrors
from .worker.worker import Worker

# Real seconds that the store may take to answer.
STORE_TIMEOUT_SECONDS = 5.0
NO_ANSWER = "the store does not answer"
_unanswered = SurvivedErrors("health", "whoever asks hears that this is not ready")
DEAF = "notifications do not reach it, so it looks for jobs at its poll interval; mainspring doctor says why"


class Health(Struct, frozen=True):
    """`live`: every loop here has turned recently, if only to meet a store that fails. `ready`: it answers as well."""

    live: bool
    ready: bool
    reasons: list[str]
    """Empty if all is well."""
    notes: list[str] = []
    """What works, and could work better."""

    def answer(self, question: Literal["live", "ready"]) -> ProbeResult:
        well = self.live if question == "live" else self.ready
        # Anybody may ask over HTTP: where the store is, and why it does not answer, is for the log.
        told = [_for_strangers(reason) for reason in self.reasons]
        return ProbeResult(200 if well else 503, Body("ok" if well else "failing", told, self.notes))


def _for_strangers(reason: str) -> str:
    if not reason.startswith(NO_ANSWER):
        return reason
    _unanswered(StoreUnavailable(reason))
    return f"{NO_ANSWER}; the log says why"


class Body(Struct, frozen=True):
    status: Literal["ok", "failing"]
    reasons: list[str]
    notes: list[str]


class ProbeResult(Struct, frozen=True):
    """To whoever asks over HTTP."""

    code: int
    body: Body


async def check_health(
    opened: Callable[[], Awaitable[Store]], workers: Iterable[Worker], *, store: bool = True
) -> Health:
    """Without `store` it is not asked: one that is away is no reason to start a live process anew."""
    workers = list(workers)
    stuck = [reason for worker in workers for reason in worker.stuck()]
    trouble = await _trouble(opened) if store else []
    deaf = [f"worker {worker.id} is deaf: {DEAF}" for worker in workers if worker.deaf]
    return Health(not stuck, not stuck and not trouble, stuck + trouble, deaf)


async def _trouble(opened: Callable[[], Awaitable[Store]]) -> list[str]:
    try:
        async with asyncio.timeout(STORE_TIMEOUT_SECONDS):
            store = await opened()
            await store.time()
            trouble = (await store.schema()).trouble
    except TimeoutError:
        return [f"the store has not answered within {STORE_TIMEOUT_SECONDS:g} s"]
    except Exception as error:  # whatever it is, the answer to "how are you?" is an answer
        return [mask_text(f"{NO_ANSWER}: {error}")]
    return [trouble] if trouble else []
