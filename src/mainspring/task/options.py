"""The options of tasks and jobs: their types, and a check for each."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, Required, TypedDict, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ..bounds import MAX_METADATA_BYTES, MAX_NAME_CHARACTERS, MAX_SPAN_SECONDS, MAX_TAGS
from ..clock import is_instant
from ..codec import encode
from ..config import read_size
from ..errors import BadFlow, BadInput, UnknownTask
from ..records.circuit import Breaker
from ..records.job import MAX_PRIORITY, MIN_PRIORITY, OnConflict, State, is_internal
from ..retry import Backoff
from ..span import Span, seconds
from .dedup_key import KeySpec, checked_key_spec
from .retention import Retention, checked_retentions

if TYPE_CHECKING:
    from .collect import Collect
    from .dead_letter import DeadLetter
    from .limit import Limit
    from .task import Task

Executor = Literal["async", "thread", "process"]

On = Literal["success", "failure", "end"]  # as in records.flow, which is imported for flows only
_ON_CONFLICT = ("return", "raise", "replace", "debounce")


Errors = type[BaseException] | tuple[type[BaseException], ...]


class CommonOptions(TypedDict, total=False):
    """The options that tasks, calls and schedules have alike."""

    queue: str
    priority: int
    timeout: Span | None
    """None: no limit."""
    max_retries: int
    tags: Sequence[str]
    metadata: Mapping[str, Any]


class ConflictOptions(TypedDict, total=False):
    """What happens if another job holds the key, for tasks and calls."""

    on_conflict: OnConflict
    debounce_limit: Span


class StubOptions(CommonOptions, ConflictOptions, total=False):
    """The options of @app.stub, which only enqueues."""

    backoff: Backoff
    unique_key: KeySpec
    idempotency_key: KeySpec
    expires: Span
    limit: Limit


class CollectingStubOptions(StubOptions, total=False):
    """The options of @app.stub for a task that collects items."""

    collect: Required[Collect]


class TaskOptions(CommonOptions, ConflictOptions, total=False):
    """The options of @app.task."""

    backoff: Backoff | Callable[[int], Span]
    retry_on: Errors
    no_retry_on: Errors
    concurrency: int
    executor: Executor
    soft_timeout: Span
    memory_limit: int | str
    cpu_limit: Span
    failed_ratio: float
    breaker: Breaker
    on_failure: Task[[DeadLetter], Any]
    retention: Retention | Mapping[str, Retention]
    unique_key: KeySpec
    idempotency_key: KeySpec
    expires: Span
    limit: Limit


class CollectingOptions(TaskOptions, total=False):
    """The options of @app.task for a task that collects items."""

    collect: Required[Collect]


class FlowOptions(CommonOptions, ConflictOptions, total=False):
    """The options of @app.flow."""

    fail_fast: bool
    """Cancels what is left as soon as a step is dead."""
    backoff: Backoff | Callable[[int], Span]
    retry_on: Errors
    no_retry_on: Errors
    concurrency: int
    breaker: Breaker
    on_failure: Task[[Any], Any]
    retention: Retention | Mapping[str, Retention]
    unique_key: KeySpec
    idempotency_key: KeySpec
    expires: Span


class JobOptions(CommonOptions, ConflictOptions, total=False):
    """The options of one call: task.using(delay=60, priority=5)."""

    backoff: Backoff
    unique_key: KeySpec | None
    idempotency_key: KeySpec | None
    delay: Span
    run_at: datetime
    expires: Span | datetime | None
    limit_key: str
    """The key of the call in the limit of its task, in place of the one that its arguments make."""
    within: Any


class StepOnlyOptions(TypedDict, total=False):
    """The options of one call that act only in a flow: task.using(when=check.ok).step()."""

    step: str
    """The step's name, in place of its task's."""
    after: Any
    """Values of steps, one or several, that have to end before."""
    when: Any
    """A condition on values of steps; the step is skipped if it does not hold."""
    on: On
    optional: bool
    """The flow goes on without the step if it is dead or cancelled."""
    failed_ratio: float
    """The share of a map's items that may be dead."""
    at_once: int
    """The jobs of a map that run at once."""


class UsingOptions(JobOptions, StepOnlyOptions, total=False):
    """The options of task.using()."""


class CheckedOptions(Struct, frozen=True, kw_only=True):
    """The options of a task, or of one call of it, checked and converted, with the default of each.

    UNSET: the next wider level decides (the task, then the app).
    """

    queue: str = "default"
    priority: int = 0
    timeout: float | UnsetType | None = UNSET
    max_retries: int | None = None
    backoff: Backoff | Callable[[int], Span] | None = None
    retry_on: tuple[type[BaseException], ...] = (BaseException,)
    no_retry_on: tuple[type[BaseException], ...] = ()
    concurrency: int | None = None
    executor: Executor | None = None
    soft_timeout: float | None = None
    memory_limit: int | None = None
    cpu_limit: float | None = None
    failed_ratio: float = 0.5
    breaker: Breaker | None = None
    on_failure: Any = None
    retention: Mapping[State, Retention] = {}
    unique_key: KeySpec | None = None
    idempotency_key: KeySpec | None = None
    on_conflict: OnConflict = "return"
    debounce_limit: float | None = None
    delay: float = 0.0
    run_at: datetime | None = None
    expires: float | datetime | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}
    within: Any = None
    fail_fast: bool = False
    collect: Any = None
    limit: Limit | None = None
    limit_key: str | None = None


# Options that a job stores as its task and its call have them.
_STORED = ("queue", "priority", "tags", "metadata", *ConflictOptions.__annotations__)
# Options that a job stores only if its call has them. The others stay with the task, so that a deploy can change them.
_STORED_IF_GIVEN = ("timeout", "max_retries", "backoff")
_stored, _stored_if_given = attrgetter(*_STORED), attrgetter(*_STORED_IF_GIVEN)


def stored_options(options: CheckedOptions, given: CheckedOptions) -> dict[str, Any]:
    """The options that are stored with a job under their own names. `given` are those of its call."""
    values = dict(zip(_STORED, _stored(options), strict=True))
    values.update(zip(_STORED_IF_GIVEN, _stored_if_given(given), strict=True))
    return values


def check_one_key(options: CheckedOptions, task: str) -> CheckedOptions:
    """The options. Raises BadInput if they have both kinds of key."""
    if options.unique_key is not None and options.idempotency_key is not None:
        raise BadInput(f"task {task!r}: unique_key and idempotency_key exclude each other; choose one")
    return options


def checked_options(given: Mapping[str, Any], of: str) -> dict[str, Any]:
    """The options, checked and converted. Raises BadInput with the name of a bad one. `of` names their owner."""
    values = dict(given)
    for name, value in given.items():
        check = _CHECKS.get(name)
        if value is None and check is not None and name not in _MAY_BE_NONE:
            raise BadInput(f"option {name} of {of} may not be None; leave it out")
        if check is not None and value is not None:
            try:
                values[name] = check(value)
            except BadFlow:
                raise
            except (BadInput, TypeError) as bad:
                raise BadInput(f"option {name} of {of}: {bad}") from None
    return values


def check_name(name: Any, what: str) -> str:
    """The name. Raises BadInput if it is not a valid name of a `what`."""
    good = isinstance(name, str) and 0 < len(name) <= MAX_NAME_CHARACTERS and name.isprintable()
    if not good or name != name.strip():
        bounds = f"1 to {MAX_NAME_CHARACTERS} printable characters without spaces around"
        raise BadInput(f"a {what} is {bounds}, got {name!r:.80}")
    return cast("str", name)


def check_public(task: str, what: str) -> str:
    """The task's name. Raises UnknownTask for an internal task: only Mainspring itself makes jobs of these."""
    if isinstance(task, str) and is_internal(task):
        raise UnknownTask(f"{what}: task {task!r} is internal, and only Mainspring itself says what its jobs do")
    return task


def _priority(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not MIN_PRIORITY <= value <= MAX_PRIORITY:
        raise BadInput(f"a whole number from {MIN_PRIORITY} to {MAX_PRIORITY}, higher runs first; got {value!r}")
    return value


def _count(least: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**31:
            raise BadInput(f"a whole number of at least {least}, got {value!r}")
        return value

    return check


def _span(value: Any) -> float:
    return seconds(value, "it")


def _positive(value: Any) -> float:
    span = seconds(value, "it")
    if span <= 0:
        raise BadInput(f"must be more than 0 seconds (None: no limit), got {value!r}")
    return span


def _limit(value: Any) -> float:
    span = seconds(value, "it")
    if span <= 0:
        raise BadInput(f"must be more than 0 seconds, got {value!r}; leave it out for no limit")
    return span


def _instant(value: Any) -> datetime:
    if not is_instant(value):
        raise BadInput(f"needs a datetime with a time zone, e.g. datetime(2030, 1, 1, tzinfo=UTC), got {value!r}")
    return value  # type: ignore[no-any-return]


def _expires(value: Any) -> float | datetime:
    return _instant(value) if isinstance(value, datetime) else _positive(value)


def _backoff(value: Any) -> Any:
    if not isinstance(value, Backoff) and (isinstance(value, type) or not callable(value)):
        raise BadInput(f"takes a Backoff or, on the task, a function of the attempt; got {value!r:.80}")
    if isinstance(value, Backoff) and value.max > MAX_SPAN_SECONDS:
        raise BadInput(f"waits at most 366 days ({MAX_SPAN_SECONDS:.0f} seconds), got max={value.max:g}")
    return value


def check_portable(given: Mapping[str, Any], task: str) -> None:
    """Raises BadInput for an option that cannot be stored with a job."""
    backoff = given.get("backoff")
    if backoff is not None and not isinstance(backoff, Backoff):
        raise BadInput(
            f"option backoff of task {task!r}: only a Backoff travels with a job; a function stays on the task"
        )


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadInput(f"is True or False, got {value!r:.80}")
    return value


def _on(value: Any) -> Any:
    if not isinstance(value, str) or value not in ("success", "failure", "end"):
        raise BadInput(f"is one of success, failure, end; got {value!r:.80}")
    return value


def _errors(value: Any) -> tuple[type[BaseException], ...]:
    kinds = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        raise BadInput(f"takes an exception class or a tuple of them, got {value!r}")
    return kinds


def _breaker(value: Any) -> Breaker:
    given = Breaker(value) if type(value) is int else value
    try:
        if not isinstance(given, Breaker):
            raise BadInput("not a breaker")
        checked = Breaker(_count(1)(given.failures), _positive(given.cooldown))
    except BadInput:
        raise BadInput(f"takes Breaker(failures=5, cooldown=60), each more than 0; got {value!r:.80}") from None
    if given is not value:
        text = f"breaker={value} is deprecated: write breaker=Breaker(failures={value})"
        warnings.warn(text, DeprecationWarning, stacklevel=6)
    return checked


def _ratio(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise BadInput(f"takes a share from 0 to 1, got {value!r}")
    return float(value)


def _executor_name(value: Any) -> Any:
    if value not in ("async", "thread", "process"):
        raise BadInput(f"is one of async, thread, process; got {value!r}")
    return value


def _memory(value: Any) -> int:
    if not (bytes := read_size(value, "it")):
        raise BadInput("must be more than 0; leave it out for no limit")
    return bytes


def _handler(value: Any) -> Any:
    from .task import Task

    if not isinstance(value, Task):
        raise BadInput(f"takes a task of this app, got {value!r:.80}")
    return value


def _collect(value: Any) -> Any:
    from .collect import checked_collect

    return checked_collect(value)


def _task_limit(value: Any) -> Any:
    from .limit import checked_limit

    return checked_limit(value)


def _limit_key(value: Any) -> Any:
    from .limit import checked_group_key

    return checked_group_key(value, "it")


def _tags(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        raise BadInput(f"takes a list of tags, got the single text {value!r}: write [{value!r}]")
    tags = tuple(check_name(tag, "tag") for tag in value)
    if len(tags) > MAX_TAGS:
        raise BadInput(f"takes at most {MAX_TAGS} tags, got {len(tags)}: metadata has room for more")
    return tags


def _metadata(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise BadInput(f"takes a mapping with text keys, got {value!r:.80}")
    text = encode(dict(value))
    if len(text) > MAX_METADATA_BYTES:
        raise BadInput(
            f"keeps at most {MAX_METADATA_BYTES:,} bytes as JSON, got {len(text):,}: "
            "keep big data elsewhere and its name here"
        )
    copied: dict[str, Any] = msgspec.json.decode(text)
    return copied


def _on_conflict(value: Any) -> Any:
    if value not in _ON_CONFLICT:
        raise BadInput(f"is one of {', '.join(_ON_CONFLICT)}; got {value!r}")
    return value


_MAY_BE_NONE = ("timeout", "expires", "unique_key", "idempotency_key")
_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "queue": lambda value: check_name(value, "queue name"),
    "priority": _priority,
    "timeout": _positive,
    "max_retries": _count(0),
    "backoff": _backoff,
    "retry_on": _errors,
    "no_retry_on": _errors,
    "concurrency": _count(1),
    "executor": _executor_name,
    "soft_timeout": _limit,
    "memory_limit": _memory,
    "cpu_limit": _limit,
    "failed_ratio": _ratio,
    "breaker": _breaker,
    "on_failure": _handler,
    "retention": checked_retentions,
    "unique_key": checked_key_spec,
    "idempotency_key": checked_key_spec,
    "on_conflict": _on_conflict,
    "debounce_limit": _positive,
    "delay": _span,
    "run_at": _instant,
    "expires": _expires,
    "tags": _tags,
    "metadata": _metadata,
    "fail_fast": _flag,
    "collect": _collect,
    "limit": _task_limit,
    "limit_key": _limit_key,
    "step": lambda value: check_name(value, "step name"),
    "after": lambda value: tuple(value) if isinstance(value, list | tuple) else (value,),
    "on": _on,
    "optional": _flag,
    "at_once": _count(1),
}
