"""app.triggers: inbound triggers, and the signed messages that call them."""

from __future__ import annotations

from builtins import list as List
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from msgspec import Struct
from msgspec.structs import replace

from ..actor import act_as
from ..errors import BadInput, UnknownTask
from ..flow.signal_call import check_name as check_signal_name
from ..records.job import Enqueued, NewJob
from ..span import Span, seconds
from ..store import Store
from ..suggest import did_you_mean, unexpected_keyword
from ..task.handle import Handle
from ..task.options import check_name, check_public, checked_options
from ..webhook.inbound import MAX_TRIGGERS, TRIGGERS, Call, InboundTrigger, StoredTrigger, check_arguments, check_kwargs
from ..webhook.message_dedup import record_job_made, remember_message
from ..webhook.record import (
    Redacted,
    SigningSecret,
    SigningSecrets,
    audit_facts,
    check_hook_name,
    check_note,
    secret_or_new,
)
from .audit_log import annotate, audited
from .computation import Computation
from .webhooks import OVERLAP

if TYPE_CHECKING:
    from ..engine import Engine

# Larger messages are decoded in a thread.
MAX_INLINE_BYTES = 64 << 10
# A name that no trigger can have.
_NO_TRIGGER = "-"


class TriggerOptions(TypedDict, total=False):
    """Options of a trigger, for create() and update()."""

    task: str | None
    schedule: str | None
    signal: str | None
    job: str | None
    queue: str | None
    priority: int | None
    kwargs: Mapping[str, Any]
    arguments: Literal["body"] | Mapping[str, str]
    note: str


class NewTriggerSecret(Struct, frozen=True):
    """A trigger and its secret, which is not shown again."""

    trigger: InboundTrigger
    secret: str


class Triggers:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # reading

    async def get(self, name: str) -> InboundTrigger:
        found = await TRIGGERS.get(await self._engine.connect(), check_hook_name(name, "trigger"), self._now())
        return found.shown

    async def list(self) -> Sequence[InboundTrigger]:
        """All triggers, by name."""
        return [stored.shown for stored in await TRIGGERS.find(await self._engine.connect(), None, self._now())]

    # creating and changing

    async def create(
        self, name: str, *, secret: str | None = None, **options: Unpack[TriggerOptions]
    ) -> NewTriggerSecret:
        """Creates a trigger: a message signed with its secret enqueues a job of `task`, fires `schedule`, or gives
        `signal` to the flow whose id stands at `job` in the message."""
        return await self._create(name, options, Redacted(secret_or_new(secret)))

    @audited("triggers.create")
    async def _create(self, name: str, options: TriggerOptions, secret: Redacted) -> NewTriggerSecret:
        store, now = await self._engine.connect(), self._now()
        made = self._with_options(InboundTrigger(name=check_hook_name(name, "trigger"), created_at=now), options)
        if len(await TRIGGERS.find(store, None, now)) >= MAX_TRIGGERS:
            raise BadInput(f"there are {MAX_TRIGGERS:,} triggers already; delete one")
        stored = await TRIGGERS.add(store, StoredTrigger(made, SigningSecrets((SigningSecret(secret.value),))), now)
        annotate(before=None, after=audit_facts(stored.shown))
        return NewTriggerSecret(stored.shown, secret.value)

    @audited("triggers.update")
    async def update(
        self,
        name: str,
        *,
        disabled: bool | None = None,
        expected: int | None = None,
        **options: Unpack[TriggerOptions],
    ) -> InboundTrigger:
        """Changes the given options. With `expected`, raises if the revision is not that one any more."""
        if not options and disabled is None:
            raise BadInput(f"update of trigger {name!r} was given nothing to change")
        now = self._now()

        def act(stored: StoredTrigger) -> StoredTrigger:
            changed = self._with_options(stored.trigger, options)
            if disabled is not None:
                changed = replace(changed, disabled_at=(changed.disabled_at or now) if disabled else None)
            return replace(stored, trigger=changed)

        return (await self._change(name, act, expected)).shown

    async def rotate(self, name: str, *, overlap: Span = OVERLAP, secret: str | None = None) -> NewTriggerSecret:
        """Replaces the secret, and shows it this once; the previous one is accepted until `overlap` ends."""
        return await self._rotate(name, seconds(overlap, "overlap"), Redacted(secret_or_new(secret)))

    @audited("triggers.rotate")
    async def _rotate(self, name: str, overlap: float, secret: Redacted) -> NewTriggerSecret:
        until = self._now() + timedelta(seconds=overlap)
        stored = await self._change(name, lambda stored: replace(stored, keys=stored.keys.rotated(secret.value, until)))
        return NewTriggerSecret(stored.shown, secret.value)

    @audited("triggers.delete")
    async def delete(self, name: str) -> None:
        """Deletes the trigger; its jobs are left alone."""
        store = await self._engine.connect()
        stored = await TRIGGERS.get_readable(store, check_hook_name(name, "trigger"), self._now())
        await TRIGGERS.drop(store, name, self._now())
        annotate(before=None if stored is None else audit_facts(stored.shown), after=None)

    # receiving

    async def receive(self, name: str, call: Call) -> Handle[Any]:
        """Enqueues the job, fires the schedule, or gives the signal, of a signed and recent message; once per message.

        Raises NotSigned for a wrong signature or an unknown trigger, BadInput for a message that does not fit.
        """
        store, now = await self._engine.connect(), self._now()
        try:
            wanted = check_hook_name(name, "trigger")
        except BadInput:
            wanted = _NO_TRIGGER
        found = await TRIGGERS.find(store, [wanted], now)
        trigger = call.authenticate(found[0] if found else None, now).trigger
        made = await self._decode(trigger, call.body)
        with act_as(f"trigger:{trigger.name}"):
            if trigger.signal is not None and isinstance(made, dict):
                return await self._signal(trigger, trigger.signal, made, call)
            if isinstance(made, NewJob):
                return await self._enqueue(store, trigger, made, call, now)
            return await self._fire(store, trigger, made, call, now)

    async def _decode(self, trigger: InboundTrigger, body: bytes) -> NewJob | dict[str, Any]:
        """The job of a message, or the arguments of a schedule's job; a large one is decoded in a thread."""
        if len(body) <= MAX_INLINE_BYTES:
            return self._decode_now(trigger, body)
        computation = Computation(self._engine.clock, "the check of this message")
        return await computation.run(lambda: self._decode_now(trigger, body))

    def _decode_now(self, trigger: InboundTrigger, body: bytes) -> NewJob | dict[str, Any]:
        values = trigger.values(body)
        if trigger.task is None:
            return values
        given = {key: value for key in ("queue", "priority") if (value := getattr(trigger, key)) is not None}
        return replace(self._engine.job(trigger.task, values, **given), enqueued_by=f"trigger:{trigger.name}")

    async def _enqueue(
        self, store: Store, trigger: InboundTrigger, job: NewJob, call: Call, now: datetime
    ) -> Handle[Any]:
        seen, there = await remember_message(store, trigger.name, call.id, now)
        if there:
            return self._engine.handle(Enqueued(seen.text, "duplicate"), job.task)
        # The task may define a key, and a job has only one.
        own = job.unique_key or job.idempotency_key
        key = {} if own else {"idempotency_key": f"trigger:{trigger.name}:{call.id}"}
        (handle,) = await self._engine.insert([replace(job, id=seen.text, **key)])
        await record_job_made(store, seen, handle.id, now)
        return handle

    async def _signal(self, trigger: InboundTrigger, signal: str, values: dict[str, Any], call: Call) -> Handle[Any]:
        """The message is the delivery: repeated, it changes nothing."""
        computation = Computation(self._engine.clock, "the check of this message")
        id = await computation.run(lambda: trigger.job_id(call.body))
        own_value = bool(trigger.arguments or trigger.kwargs)
        delivery = f"trigger:{trigger.name}:{sha256(call.id.encode()).hexdigest()}"
        await self._engine.flows.signal(id, signal, values if own_value else None, delivery=delivery)
        return self._engine.handle(Enqueued(id, "duplicate"), (await self._engine.jobs.get(id)).task)

    async def _fire(
        self, store: Store, trigger: InboundTrigger, values: dict[str, Any], call: Call, now: datetime
    ) -> Handle[Any]:
        schedule = trigger.schedule or ""
        task = (await self._engine.schedules.get(schedule)).spec.task
        seen, there = await remember_message(store, trigger.name, call.id, now)
        if there:
            return self._engine.handle(Enqueued(seen.text, "duplicate"), task)
        own_input = not trigger.arguments and not trigger.kwargs
        handle = await self._engine.schedules.trigger(schedule, kwargs=None if own_input else values, id=seen.text)
        await record_job_made(store, seen, handle.id, now)
        return handle

    # inside

    def _now(self) -> datetime:
        return self._engine.clock.now()

    def _with_options(self, trigger: InboundTrigger, given: TriggerOptions) -> InboundTrigger:
        """The trigger with these options. Raises BadInput for options that exclude each other."""
        for name in given:
            if name not in TriggerOptions.__annotations__:
                raise unexpected_keyword("triggers", name, TriggerOptions.__annotations__)
        values: dict[str, Any] = dict(given)
        what = f"trigger {trigger.name!r}"
        values |= checked_options(
            {key: values[key] for key in ("queue", "priority") if values.get(key) is not None}, what
        )
        for key, check in (("arguments", check_arguments), ("kwargs", check_kwargs), ("note", check_note)):
            if key in values:
                values[key] = check(values[key])
        changed: InboundTrigger = replace(trigger, **values)
        if [changed.task, changed.schedule, changed.signal].count(None) != 2:
            raise BadInput(f"{what} makes a job of a task, fires a schedule, or gives a signal: give one of them")
        if changed.task is None and (changed.queue is not None or changed.priority is not None):
            does = "fires a schedule, which has" if changed.signal is None else "gives a signal to a job, which has"
            raise BadInput(f"{what} {does} a queue and a priority of its own")
        if (changed.signal is None) != (changed.job is None):
            raise BadInput(f"{what}: signal= and job= go together: the name, and where the message has the job's id")
        if changed.signal is not None:
            check_signal_name(changed.signal)
            check_arguments({"job": changed.job})
        tasks = self._engine.tasks
        if changed.task is not None:
            check_public(check_name(changed.task, "task name"), what)
        if changed.task is not None and tasks and changed.task not in tasks:
            raise UnknownTask(
                f"{what}: no task {changed.task!r} is registered in this app; {did_you_mean(changed.task, tasks)}"
            )
        return changed

    async def _change(
        self, name: str, act: Callable[[StoredTrigger], StoredTrigger], expected: int | None = None
    ) -> StoredTrigger:
        store, before = await self._engine.connect(), List[StoredTrigger]()

        def seen(stored: StoredTrigger) -> StoredTrigger:
            before[:] = [stored]
            return act(stored)

        name = check_hook_name(name, "trigger")
        stored = await TRIGGERS.change(store, name, self._now(), seen, expected=expected)
        annotate(before=audit_facts(before[0].shown), after=audit_facts(stored.shown))
        return stored
