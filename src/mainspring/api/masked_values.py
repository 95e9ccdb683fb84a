"""Masked values in requests: a form shows *** for a secret and sends it back when it is saved."""

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

# The stored value where there is none.
_ABSENT: Any = object()
# Replaces *** in a text, to find out whether masking that text would produce the *** again.
_SAMPLE = "x1x"
# Levels of nesting. Deeper values are never shown.
_MAX_DEPTH = 100
# Values that are searched for masked ones.
MAX_VALUES = 10_000


def restore_masked(given: Mapping[str, Any], stored: Any = _ABSENT) -> dict[str, Any]:
    """The given values, with each *** replaced by the stored secret that it was shown for.

    Raises BadInput for a *** that no stored value is shown as, if its name is that of a secret or the text is masked
    in part: it would overwrite a secret.
    """
    if MASK.encode() not in msgspec.json.encode(given):  # the usual case, and a cheap check
        return dict(given)
    values: dict[str, Any] = _Restorer().restore(dict(given), stored, "", _MAX_DEPTH)
    return values


def restore_arguments(given: Mapping[str, Any], payload: str) -> dict[str, Any]:
    """`restore_masked` for arguments that are stored as JSON. It is decoded only if a masked value was sent."""
    if MASK.encode() not in msgspec.json.encode(given):
        return dict(given)
    if has_too_many_parts(payload):
        raise BadInput(f"the stored arguments have too many parts to find the value that {MASK} stands for; omit it")
    return restore_masked(given, decode_or_text(payload))


async def restore_in_thread(app: Mainspring, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Runs `make`, which restores masked values, in a thread: the values may be large."""
    return await Computation(app.clock, "the comparison with the stored values").run(make)


def restore_text(given: str, stored: str, what: str) -> str:
    """`restore_masked` for one text, such as a URL with a password."""
    text: str = _restore_text(given, stored, what)
    return text


class _Restorer:
    """Restores masked values in nested data. Raises BadInput if there are too many values."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def restore(self, given: Any, stored: Any, path: str, depth: int) -> Any:
        match given:
            case str():
                return _restore_text(given, stored, path)
            case Mapping() | list() if not depth or not self._has_room(given):
                raise BadInput(
                    f"{path:.80} has a {MASK} among more than {MAX_VALUES:,} values, or {_MAX_DEPTH} levels deep: "
                    "the secret that it stands for is not searched for there; omit it"
                )
            case Mapping():
                old = stored if isinstance(stored, Mapping) else {}
                return {
                    key: self.restore(value, old.get(key, _ABSENT), f"{path}.{key}" if path else str(key), depth - 1)
                    for key, value in given.items()
                }
            case list():
                same = isinstance(stored, list) and len(stored) == len(given)
                olds = stored if same else [_ABSENT] * len(given)
                return [self.restore(value, olds[n], f"{path}[{n}]", depth - 1) for n, value in enumerate(given)]
        return given

    def _has_room(self, values: Sized) -> bool:
        self._left -= len(values)
        return self._left >= 0


def _restore_text(given: str, stored: Any, path: str) -> Any:
    if MASK not in given:
        return given
    name = path.rpartition(".")[2].partition("[")[0]
    if stored is not _ABSENT and (stored == given or given in mask({name: stored}).values()):
        return stored
    masked_in_part = given != MASK and mask_text(given.replace(MASK, _SAMPLE)) == given
    if (given == MASK and is_secret(name)) or masked_in_part:
        raise BadInput(
            f"{path} is {given:.80}, which stands for a secret, but none is stored there: "
            "send the value itself, or omit it"
        )
    return given
