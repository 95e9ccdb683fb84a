"""Steps: calls of tasks inside a flow, bound to the parameters of the task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from ..errors import BadFlow, BadInput
from .arguments import accepting_none, check_arguments, check_items
from .planner import MAX_INPUT_BYTES, Planner, StepCall, current_planner
from .values import NeedsInput, Unknown

if TYPE_CHECKING:
    from ..task.task import Task
    from .values import Value, YieldedItems

# More items than that exceed the bytes of all inputs, as each has one digit and a comma: it ends an endless iterator.
MAX_ITEMS = MAX_INPUT_BYTES


def add_step(task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Value | YieldedItems:
    """Adds task.step(*args, **kwargs) to the flow that is being planned."""
    return add_step_to(current_planner(f"{task.name}.step()"), task, args, kwargs)


def add_step_to(
    planner: Planner, task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Value | YieldedItems:
    with naming(f"step {planner.next_name(task)!r}"):
        return add_call(planner, task, task.arguments.bind(tuple(args), kwargs))


def add_map(task: Task[Any, Any], items: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Value | YieldedItems:
    """Adds task.map(items, *args, **kwargs) to the flow that is being planned."""
    return add_map_to(current_planner(f"{task.name}.map()"), task, items, args, kwargs)


def add_map_to(
    planner: Planner, task: Task[Any, Any], items: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Value | YieldedItems:
    with naming(f"step {planner.next_name(task)!r}"):
        if task.yields:
            raise BadFlow(f"task {task.name!r} yields items, and is no item of a map: make a flow of it and its map")
        item = item_parameter(task)
        arguments = task.arguments.bind((None, *args), kwargs)
        del arguments[item]
        return add_call(planner, task, arguments, items, item)


def add_call(
    planner: Planner, task: Task[Any, Any], arguments: Mapping[str, Any], over: Any = None, item: str = ""
) -> Value | YieldedItems:
    """Adds a step with these arguments by parameter; one that maps over a list if `item` names a parameter."""
    if planner.app is not None and task.app is not planner.app:
        raise BadFlow(f"task {task.name!r} is of another app: declare it here, or an @app.stub of it")
    check_arguments(planner, task, arguments, item)
    result = task.results.type
    if item:
        over = listed(over)
        check_items(task, over, item)
        result = list[result]  # type: ignore[valid-type]
    only = {} if task.step_options is None else asdict(task.step_options)
    if only.pop("at_once", None) is not None and not item:
        raise BadFlow("at_once is for the jobs of a map, and this step has one job: use .map(), or limit= of the task")
    call = StepCall(
        task=task.name,
        arguments=arguments,
        accepts_none=accepting_none(task, arguments),
        over=over,
        item=item,
        yields=task.yields,
        options=task.planned_options(),
        result=result,
        **only,
    )
    return planner.add(call)


def listed(items: Any) -> Any:
    """The items of a map as a list, unless they are the value of a step."""
    if isinstance(items, Unknown | list):
        return items
    if not isinstance(items, Iterable) or isinstance(items, str | bytes | bytearray | Mapping):
        raise BadFlow(f"a map takes a list of items, got {items!r:.80}")
    return list(islice(items, MAX_ITEMS))


def naming(what: str) -> AbstractContextManager[None]:
    """What is wrong inside the block is reported as a BadFlow that names the step, or another part of the flow."""
    return _Naming(what)


class _Naming(AbstractContextManager[None]):
    """contextlib.contextmanager would cost each step a generator."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, RecursionError):
            raise BadFlow(f"{self._what}: a value is nested too deeply, or contains itself") from None
        if isinstance(error, BadInput) and not isinstance(error, NeedsInput):
            text = str(error)
            raise BadFlow(text if text.startswith(("step ", "two steps ")) else f"{self._what}: {text}") from None


def item_parameter(task: Task[Any, Any]) -> str:
    positional = task.arguments.positional
    if not positional:
        raise BadFlow(f"task {task.name!r} has no parameter for an item: .map() passes each item as the first argument")
    return positional[0]
