"""Masked values that come back: a form shows *** for a secret, and sends it again when it is saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from typing import Any

import msgspec

from ..app import Mainspring
from ..bounds import has_too_many_parts
from ..codec import decode_or_text
from ..control.computation import Computation
from ..errors import BadInput
from ..mask import MASK, is_secret, mask, mask_text

# What stands where nothing is stored.
_NOTHING: Any = object()
# Stands for a secret in a text, to find out whether the text would be masked like that.
_SAMPLE = "x1x"
# Levels; deeper values are never shown.
_DEPTH = 100
# Values that are looked through for masked ones.
MAX_VALUES = 10_000


def kept(given: Mapping[str, Any], stored: Any = _NOTHING) -> dict[str, Any]:
    """The values that are meant: *** in place of a stored secret means that secret, unchanged.

    Where nothing is stored that is shown like this, a masked value under a telling name, or a text that is masked in
    part, is refused: it would be written over a secret.
    """
    if MASK.encode() not in msgspec.json.encode(given):  # as nearly always, and this takes next to no time
        return dict(given)
    values: dict[str, Any] = _Keeping().kept(dict(given), stored, "", _DEPTH)
    return values


def kept_arguments(given: Mapping[str, Any], payload: str) -> dict[str, Any]:
    """The same of arguments that are stored as JSON, which is decoded only where something masked was sent."""
    if MASK.encode() not in msgspec.json.encode(given):
        return dict(given)
    if has_too_many_parts(payload):
        raise BadInput(f"the stored arguments have too many parts to find in them what {MASK} stands for; leave it out")
    return kept(given, decode_or_text(payload))


async def given_values(spring: Mainspring, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a request says, with masked values as they are meant; in a thread, since they may be large."""
    return await Computation(spring.clock, "the comparison with what is stored").run(make)


def kept_text(given: str, stored: str, what: str) -> str:
    """The same of one text, such as a URL with a password in it."""
    text: str = _kept_text(given, stored, what)
    return text


class _Keeping:
    """One look at values, which ends if they are too many."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def kept(self, given: Any, stored: Any, path: str, depth: int) -> Any:
        match given:
            case str():
                return _kept_text(given, stored, path)
            case Mapping() | list() if not depth or not self._has_room(given):
                raise BadInput(
                    f"{path:.80} has a {MASK} among more than {MAX_VALUES:,} values, or {_DEPTH} levels deep: "
                    "which secret that stands for is not looked for there; leave it out"
                )
            case Mapping():
                old = stored if isinstance(stored, Mapping) else {}
                return {
                    key: self.kept(value, old.get(key, _NOTHING), f"{path}.{key}" if path else str(key), depth - 1)
                    for key, value in given.items()
                }
            case list():
                same = isinstance(stored, list) and len(stored) == len(given)
                olds = stored if same else [_NOTHING] * len(given)
                return [self.kept(value, olds[n], f"{path}[{n}]", depth - 1) for n, value in enumerate(given)]
        return given

    def _has_room(self, values: Sized) -> bool:
        self._left -= len(values)
        return self._left >= 0


def _kept_text(given: str, stored: Any, path: str) -> Any:
    if MASK not in given:
        return given
    name = path.rpartition(".")[2].partition("[")[0]
    if stored is not _NOTHING and (stored == given or given in mask({name: stored}).values()):
        return stored
    masked_in_part = given != MASK and mask_text(given.replace(MASK, _SAMPLE)) == given
    if (given == MASK and is_secret(name)) or masked_in_part:
        raise BadInput(
            f"{path} is {given:.80}, which stands for a secret that is not shown, and there is none here to keep: "
            "give the value itself, or leave it out"
        )
    return given
