"""The step of a flow that a job belongs to, and the values of other steps that its run reads."""

from __future__ import annotations

from msgspec import Struct

from ..ids import JobId

_STEP_SHIFT_BITS, _LIFE_SHIFT_BITS = 32, 56
MAX_INDEX = (1 << _STEP_SHIFT_BITS) - 1
# The index of a new job of a batch: the store numbers it.
NEXT_INDEX = MAX_INDEX
# Lives are few enough that a position fits a signed number of 64 bits.
MAX_POSITION = (1 << 63) - 1
# Times that a step can be put back to work: a life has 7 bits of a position.
MAX_LIVES = 127


class StepRef(Struct, frozen=True, gc=False):
    """The step of a flow that a job belongs to."""

    flow: JobId
    position: int
    """life << 56 | step << 32 | index. Index 0 is the step itself; the items of a map count from 1."""
    queue: str
    """The queue of the flow's own job, which names the shard of the flow's row."""
    needed: bool = False
    """Whether another step, or the flow's result, reads the result of this one."""

    @property
    def life(self) -> int:
        return self.position >> _LIFE_SHIFT_BITS

    @property
    def number(self) -> int:
        """Of the step in the plan."""
        return (self.position >> _STEP_SHIFT_BITS) & ((1 << (_LIFE_SHIFT_BITS - _STEP_SHIFT_BITS)) - 1)

    @property
    def index(self) -> int:
        return self.position & ((1 << _STEP_SHIFT_BITS) - 1)

    @property
    def is_unnumbered(self) -> bool:
        """Whether it is that of a new job of a batch, which the store numbers."""
        return self.index == NEXT_INDEX


def position_of(step: int, index: int = 0, life: int = 0) -> int:
    return life << _LIFE_SHIFT_BITS | step << _STEP_SHIFT_BITS | index


def split_position(position: int) -> tuple[int, int, int]:
    """The life, the step's number and the index."""
    step = (position >> _STEP_SHIFT_BITS) & ((1 << (_LIFE_SHIFT_BITS - _STEP_SHIFT_BITS)) - 1)
    return position >> _LIFE_SHIFT_BITS, step, position & MAX_INDEX


class StepValue(Struct, frozen=True, gc=False, array_like=True):
    """A value that a worker reads before it decodes the payload of a step's job."""

    position: int
    """Of the step whose result it is; its index is 0."""
    path: tuple[str | int, ...] = ()
    """Where the value is in that result."""
    many: bool = False
    """Whether the step is a map: the value is the list of its items' results."""
