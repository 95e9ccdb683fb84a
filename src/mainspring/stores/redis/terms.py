"""Leader terms: which process leads for a name, and until when."""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

from ...records.job import UNREADABLE
from ...records.unreadable import readable
from ...schedule.record import LeaderTerm
from ..rules import next_term
from .handle import RedisHandle
from .index import Command
from .transact import contend_one
from .two_phase import Unit, has

_term = msgspec.json.Decoder(LeaderTerm).decode
_encode = msgspec.json.Encoder().encode


class RedisTerms(RedisHandle):
    """Leader terms by name, in the first shard."""

    async def acquire_term(self, name: str, holder: str, *, until: datetime, now: datetime) -> LeaderTerm:
        shards = self._open()
        key = f"{shards.first.base}:leader"

        async def propose() -> tuple[LeaderTerm, Unit]:
            text = await shards.first.call("HGET", key, name)
            answer = next_term(_known_leader(name, text, until, now), name, holder, until, now)
            commands: list[Command] = [("HSET", key, name, _encode(answer))]
            if answer.holder is None:
                commands.append(("PUBLISH", shards.first.base, "new"))
            return answer, Unit([has(key, name, text)], commands)

        with self._clock.outside():
            answer = await contend_one(shards, "lead", propose)
        if answer.holder is None:
            self._wakeups.notify("new")
        return answer

    async def terms(self, *, now: datetime) -> list[LeaderTerm]:
        shard = self._open().first
        with self._clock.outside():
            pairs = await shard.call("HGETALL", f"{shard.base}:leader")
        found = readable("leader", zip(pairs[::2], pairs[1::2], strict=True), _term)
        return sorted((one for one in found if one.holder is not None and one.until > now), key=lambda one: one.name)


def _known_leader(name: str, text: bytes | None, until: datetime, now: datetime) -> LeaderTerm | None:
    """The current term, None if there is none. One that cannot be decoded is assumed to last until `until`."""
    if text is None:
        return None
    found = readable("leader", [(name, text)], _term)
    return found[0] if found else LeaderTerm(name, UNREADABLE, _last_term(text, now), until)


def _last_term(text: bytes, now: datetime) -> int:
    """A number that the next term has to exceed. The Unix time if none can be read: a term lasts at least a second."""
    term = re.search(rb'"term":\s*(\d{1,15})\b', text)
    return int(now.timestamp()) if term is None else int(term[1])
