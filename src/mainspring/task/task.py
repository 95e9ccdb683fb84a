"""@task and Task: a function's name and options; turns a call into a NewJob."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypedDict, TypeVar, Unpack, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from ..bounds import MAX_METADATA_BYTES, MAX_NAME_CHARACTERS, MAX_SPAN_SECONDS, MAX_TAGS
from ..clock import EPOCH, is_instant
from ..codec import Arguments, Results, encode, is_async
from ..config import read_size
from ..errors import BadInput, BadTask, UnknownTask
from ..ids import new_id
from ..records.circuit import Breaker
from ..records.job import MAX_PRIORITY, MIN_PRIORITY, NewJob, OnConflict, State, is_internal
from ..records.outcome import Policy
from ..retry import Backoff
from ..span import Span, seconds
from ..suggest import unexpected_keyword
from .context import Context, Middleware
from .dedup_key import KeySpec, checked_key_spec, resolve_key
from .retention import Retention, checked_retentions

if TYPE_CHECKING:
    from ..app import Mainspring
    from ..sync import SyncTask
    from .handle import Handle

P = ParamSpec("P")
R = TypeVar("R")
Executor = Literal["async", "thread", "process"]

_ON_CONFLICT = ("return", "raise", "replace", "debounce")


class TaskOptions(Struct, frozen=True, kw_only=True):
    """Everything a task or one call of it may ask for. UNSET: whatever the next wider level says."""

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


class JobOptions(TypedDict, total=False):
    """What one call may ask for: task.using(delay=60, priority=5)."""

    queue: str
    priority: int
    timeout: Span | None
    """None: no limit."""
    max_retries: int
    backoff: Backoff
    unique_key: KeySpec | None
    idempotency_key: KeySpec | None
    on_conflict: OnConflict
    debounce_limit: Span
    delay: Span
    run_at: datetime
    expires: Span | datetime | None
    tags: Sequence[str]
    metadata: Mapping[str, Any]
    within: Any


class Task(Generic[P, R]):
    """A registered function. Calling it calls the function; enqueue() makes a job of the call."""

    def __init__(
        self,
        app: Mainspring,
        name: str,
        fn: Callable[..., Any],
        options: TaskOptions,
        middleware: Sequence[Middleware] = (),
        stub: bool = False,
    ) -> None:
        self.app = app
        self.name = check_name(name, "task name")
        self.fn = fn
        self.options = options
        self.middleware = tuple(middleware)
        self.stub = stub
        """True: known by name and signature only; the code is elsewhere."""
        self.executor: Executor = _executor(fn, options, name)
        # What travels with the job. The rest stays with the task, so that a deploy can change it.
        self.asked = options if stub else TaskOptions()
        self.arguments = Arguments(fn, name, Context)
        self.results = Results(fn, name)
        self.__doc__ = fn.__doc__

    @cached_property
    def _plain(self) -> NewJob | None:
        """The job of any call, where nothing but its id and payload depends on the call: a third of the cost."""
        options = self.options
        if options.delay or options.run_at or options.expires or options.unique_key or options.idempotency_key:
            return None
        return new_job(self.name, "{}", options, self.asked, EPOCH, dict, self.arguments.fingerprint)

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)

    def using(self, **options: Unpack[JobOptions]) -> Task[P, R]:
        """The same task with these options for the jobs made through it."""
        for name in options:
            if name not in JobOptions.__annotations__:
                raise unexpected_keyword("using", name, JobOptions.__annotations__)
        given = checked_options(options, f"task {self.name!r}")
        check_portable(given, self.name)
        if given.get("within") is not None:
            self.app.check_within()
        changed = object.__new__(Task)
        changed.__dict__.update(self.__dict__)
        changed.__dict__.pop("_plain", None)
        changed.options = check_one_key(replace(self.options, **given), self.name)
        changed.asked = replace(self.asked, **given)
        return cast("Task[P, R]", changed)

    def job(self, /, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """The call as data, for enqueue_many."""
        payload = self.arguments.encode(args, kwargs, self.app.settings.payload_limit)
        now = self.app.clock.now()
        if self._plain is not None:
            return replace(self._plain, id=new_id(now), payload=payload)
        return new_job(
            self.name, payload, self.options, self.asked, now, lambda: self.arguments.bind(args, kwargs),
            self.arguments.fingerprint,
        )  # fmt: skip

    async def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Stores the job; it is safe when this returns."""
        (handle,) = await self.app.hand_over([self.job(*args, **kwargs)], self.options.within)
        return handle

    @property
    def sync(self) -> SyncTask[P, R]:
        """The same names for code that does not await."""
        from ..sync import SyncTask

        return SyncTask(self)

    def timeout(self, default: float) -> float | None:
        return default if self.options.timeout is UNSET else self.options.timeout

    def policy(self, default: Policy) -> Policy:
        """Retry rules with the app's where the task has none."""
        options = self.options
        return Policy(
            default.max_retries if options.max_retries is None else options.max_retries,
            options.backoff or default.backoff,
            options.retry_on,
            options.no_retry_on,
            options.breaker,
        )


def new_job(
    task: str,
    payload: str,
    options: TaskOptions,
    asked: TaskOptions,
    now: datetime,
    values: Callable[[], Mapping[str, Any]],
    fingerprint: str | None = None,
) -> NewJob:
    """A call and its options, complete enough for any store."""
    run_at = options.run_at
    if run_at is None and options.delay:
        run_at = now + timedelta(seconds=options.delay)
    expires = options.expires
    if expires is not None and not isinstance(expires, datetime):
        try:
            expires = (run_at or now) + timedelta(seconds=expires)
        except OverflowError:
            raise BadInput(f"option expires of task {task!r} is beyond the calendar") from None
    unique = idempotency = None
    if options.unique_key is not None or options.idempotency_key is not None:
        given = values()
        unique = resolve_key(options.unique_key, "unique_key", task, given, options.queue, now)
        idempotency = resolve_key(options.idempotency_key, "idempotency_key", task, given, options.queue, now)
    return NewJob(
        id=new_id(now), task=task, payload=payload, queue=options.queue, priority=options.priority, run_at=run_at,
        expires_at=expires, timeout=asked.timeout, max_retries=asked.max_retries,
        backoff=cast("Backoff | None", asked.backoff), tags=options.tags, metadata=options.metadata,
        unique_key=unique, idempotency_key=idempotency, on_conflict=options.on_conflict,
        debounce_limit=options.debounce_limit, fingerprint=fingerprint,
    )  # fmt: skip


def check_one_key(options: TaskOptions, task: str) -> TaskOptions:
    if options.unique_key is not None and options.idempotency_key is not None:
        raise BadInput(f"task {task!r}: unique_key and idempotency_key exclude each other; choose one")
    return options


def checked_options(given: Mapping[str, Any], of: str) -> dict[str, Any]:
    """Options as the engine wants them; refuses each bad one by name."""
    values = dict(given)
    for name, value in given.items():
        check = _CHECKS.get(name)
        if value is None and check is not None and name not in _MAY_BE_NONE:
            raise BadInput(f"option {name} of {of} may not be None; leave it out")
        if check is not None and value is not None:
            try:
                values[name] = check(value)
            except (BadInput, TypeError) as bad:
                raise BadInput(f"option {name} of {of}: {bad}") from None
    return values


def _executor(fn: Callable[..., Any], options: TaskOptions, name: str) -> Executor:
    """Where the function runs; refuses what cannot be."""
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise BadTask(f"task {name!r} is a generator, and a call of it would run none of its code: do not use `yield`")
    own: Executor = "async" if is_async(fn) else "thread"
    chosen = options.executor or own
    if chosen not in ("process", own):
        what = "a coroutine function" if own == "async" else "a plain function"
        raise BadTask(f"task {name!r} is {what}: it runs with executor={own!r} or 'process', not {chosen!r}")
    if chosen != "process" and (options.memory_limit is not None or options.cpu_limit is not None):
        raise BadTask(f"task {name!r}: memory_limit and cpu_limit need a process of its own: executor='process'")
    soft, hard = options.soft_timeout, options.timeout
    if soft is not None and isinstance(hard, int | float) and soft >= hard:
        raise BadTask(f"task {name!r}: soft_timeout ({soft:g} s) must come before timeout ({hard:g} s)")
    if chosen == "process" and not _reachable(fn):
        raise BadTask(
            f"task {name!r} has executor='process', so another process must find its function by name: "
            "define it at the top of a module"
        )
    return chosen


def _reachable(fn: Callable[..., Any]) -> bool:
    name = getattr(fn, "__qualname__", "")
    return bool(name) and "<" not in name and bool(getattr(fn, "__module__", None))


def check_name(name: Any, what: str) -> str:
    good = isinstance(name, str) and 0 < len(name) <= MAX_NAME_CHARACTERS and name.isprintable()
    if not good or name != name.strip():
        bounds = f"1 to {MAX_NAME_CHARACTERS} printable characters without spaces around"
        raise BadInput(f"a {what} is {bounds}, got {name!r:.80}")
    return cast("str", name)


def check_public(task: str, what: str) -> str:
    """The task's name; refuses that of an internal task, which nothing but Mainspring itself makes jobs of."""
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
    """Refuses what cannot go with a job to another process."""
    backoff = given.get("backoff")
    if backoff is not None and not isinstance(backoff, Backoff):
        raise BadInput(
            f"option backoff of task {task!r}: only a Backoff travels with a job; a function stays on the task"
        )


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
        warnings.warn(text, DeprecationWarning, stacklevel=5)
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
    if not isinstance(value, Task):
        raise BadInput(f"takes a task of this app, got {value!r:.80}")
    return value


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
}
