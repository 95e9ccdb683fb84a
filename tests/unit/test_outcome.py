"""decide(): what each ending means for the job; and errors as text that every store can hold."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import Backoff, BadInput, Cancel, Discard, Job, JobTimeout, Mainspring, Retry, Snooze
from mainspring.records.api_key import checked_role
from mainspring.records.job import TRANSITIONS, State
from mainspring.records.outcome import (
    MAX_MESSAGE_CHARACTERS,
    MAX_STACK_CHARACTERS,
    Crashed,
    Done,
    Policy,
    Released,
    RunEnd,
    Stopped,
    clean,
    decide,
    failure_of,
    seconds,
)
from mainspring.records.run import Ending, Failure
from mainspring.records.skew import UndecodablePayload

NOW = datetime(2030, 1, 1, tzinfo=UTC)
STEADY = Policy(max_retries=2, backoff=Backoff.constant(10, jitter=0))


def a_job(attempt: int = 1, crashes: int = 0) -> Job:
    return Job(
        id="0190-job", task="task", payload="{}", queue="default", priority=0, state=State.RUNNING, run_at=NOW,
        created_at=NOW, attempt=attempt, crashes=crashes, lease="a lease", worker="ada",
    )  # fmt: skip


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


FIRST, LAST = 1, 3
"""With two retries, the first attempt has retries left, and the third has none."""

BACKOFF, AT_ONCE, NEVER = later(10), NOW, None

ENDINGS: list[tuple[RunEnd, State, Ending, datetime | None, State, datetime | None]] = [
    # the ending                     first attempt: state, ending, run_at     last attempt: state, run_at
    (Done(), State.COMPLETED, Ending.COMPLETED, NEVER, State.COMPLETED, NEVER),
    (Done("1"), State.COMPLETED, Ending.COMPLETED, NEVER, State.COMPLETED, NEVER),
    (Released(), State.PENDING, Ending.RELEASED, AT_ONCE, State.PENDING, AT_ONCE),
    (Snooze(60), State.PENDING, Ending.SNOOZED, later(60), State.PENDING, later(60)),
    (Stopped("enough"), State.CANCELLED, Ending.CANCELLED, NEVER, State.CANCELLED, NEVER),
    (Cancel("no"), State.CANCELLED, Ending.CANCELLED, NEVER, State.CANCELLED, NEVER),
    (Discard("no"), State.DEAD, Ending.DISCARDED, NEVER, State.DEAD, NEVER),
    (UndecodablePayload(Failure("BadPayload", "no")), State.DEAD, Ending.FAILED, NEVER, State.DEAD, NEVER),
    (Crashed("ada", 3), State.PENDING, Ending.CRASHED, AT_ONCE, State.PENDING, AT_ONCE),
    (Crashed("ada", 1), State.DEAD, Ending.CRASHED, NEVER, State.DEAD, NEVER),
    (ValueError("no"), State.PENDING, Ending.FAILED, BACKOFF, State.DEAD, NEVER),
    (KeyboardInterrupt(), State.PENDING, Ending.FAILED, BACKOFF, State.DEAD, NEVER),
    (TimeoutError("theirs"), State.PENDING, Ending.FAILED, BACKOFF, State.DEAD, NEVER),
    (JobTimeout("ours"), State.PENDING, Ending.TIMEOUT, BACKOFF, State.DEAD, NEVER),
    (Retry(), State.PENDING, Ending.FAILED, BACKOFF, State.DEAD, NEVER),
    (Retry(after=7), State.PENDING, Ending.FAILED, later(7), State.DEAD, NEVER),
    (Retry(after=0), State.PENDING, Ending.FAILED, AT_ONCE, State.DEAD, NEVER),
]


@pytest.mark.parametrize(("ended", "state", "ending", "run_at", "last_state", "last_run_at"), ENDINGS, ids=repr)
def test_every_ending_has_its_outcome_with_and_without_retries_left(
    ended: RunEnd,
    state: State,
    ending: Ending,
    run_at: datetime | None,
    last_state: State,
    last_run_at: datetime | None,
) -> None:
    first = decide(a_job(FIRST), ended, now=NOW, policy=STEADY)
    last = decide(a_job(LAST), ended, now=NOW, policy=STEADY)
    assert (first.state, first.ending, first.run_at) == (state, ending, run_at)
    assert (last.state, last.ending, last.run_at) == (last_state, ending, last_run_at)


@pytest.mark.parametrize("ended", [row[0] for row in ENDINGS], ids=repr)
@pytest.mark.parametrize("attempt", [FIRST, LAST])
def test_an_outcome_has_the_lease_of_its_run_and_an_allowed_state(ended: RunEnd, attempt: int) -> None:
    outcome = decide(a_job(attempt), ended, now=NOW, policy=STEADY)
    assert (outcome.id, outcome.lease, outcome.finished_at) == ("0190-job", "a lease", NOW)
    assert outcome.state in TRANSITIONS[State.RUNNING]
    assert (outcome.run_at is not None) == (outcome.state is State.PENDING)


@pytest.mark.parametrize("ended", [row[0] for row in ENDINGS], ids=repr)
def test_only_snooze_and_release_give_the_attempt_back(ended: RunEnd) -> None:
    outcome = decide(a_job(), ended, now=NOW, policy=STEADY)
    assert outcome.refund == isinstance(ended, Snooze | Released)


@pytest.mark.parametrize("ended", [row[0] for row in ENDINGS], ids=repr)
def test_only_a_crash_is_counted_as_a_crash(ended: RunEnd) -> None:
    assert decide(a_job(), ended, now=NOW, policy=STEADY).crash == isinstance(ended, Crashed)


@pytest.mark.parametrize("ended", [row[0] for row in ENDINGS], ids=repr)
def test_every_ending_except_done_released_and_snooze_has_a_failure(ended: RunEnd) -> None:
    failure = decide(a_job(), ended, now=NOW, policy=STEADY).failure
    assert (failure is None) == isinstance(ended, Done | Released | Snooze)


@pytest.mark.parametrize(
    ("ended", "type", "message"),
    [
        (Stopped("enough"), "Cancelled", "enough"),
        (Cancel("not needed"), "Cancel", "not needed"),
        (Discard("no use"), "Discard", "no use"),
        (Retry(reason="not yet"), "Retry", "not yet"),
        (UndecodablePayload(Failure("BadPayload", "what?")), "BadPayload", "what?"),
        (Crashed("ada", 3), "WorkerLost", "worker ada fell silent while running this job"),
        (Crashed("ada", 1), "PoisonPill", "worker ada fell silent while running this job; crash 1 of 1 allowed"),
        (ValueError("bad"), "ValueError", "bad"),
        (JobTimeout("slow"), "JobTimeout", "slow"),
    ],
    ids=repr,
)
def test_a_directive_keeps_its_reason(ended: RunEnd, type: str, message: str) -> None:
    failure = decide(a_job(), ended, now=NOW, policy=STEADY).failure
    assert failure is not None
    assert (failure.type, failure.message) == (type, message)


def test_an_outcome_has_both_a_result_and_a_result_lost_failure() -> None:
    note = Failure("ResultLost", "too big")
    outcome = decide(a_job(), Done("[1]", note), now=NOW)
    assert (outcome.result, outcome.failure) == ("[1]", note)


@pytest.mark.parametrize("retries", [0, 1, 5])
def test_a_job_is_dead_after_max_retries_failed_retries(retries: int) -> None:
    policy = Policy(max_retries=retries)
    states = [decide(a_job(n), ValueError(), now=NOW, policy=policy).state for n in range(1, retries + 2)]
    assert states == [State.PENDING] * retries + [State.DEAD]


def test_the_nth_retry_waits_for_the_nth_backoff_delay() -> None:
    policy = Policy(max_retries=9, backoff=Backoff(jitter=0))
    runs = [decide(a_job(n), ValueError(), now=NOW, policy=policy).run_at for n in range(1, 5)]
    assert runs == [later(1), later(2), later(4), later(8)]


def test_crashes_do_not_count_as_retries() -> None:
    outcome = decide(a_job(attempt=LAST, crashes=1), ValueError(), now=NOW, policy=STEADY)
    assert outcome.state is State.PENDING


def test_crashes_do_not_lengthen_the_backoff() -> None:
    policy = Policy(backoff=Backoff(jitter=0))
    assert decide(a_job(attempt=3, crashes=2), ValueError(), now=NOW, policy=policy).run_at == later(1)


@pytest.mark.parametrize(
    ("crashes", "state"), [(0, State.PENDING), (1, State.PENDING), (2, State.DEAD), (5, State.DEAD)]
)
def test_the_third_crash_is_a_poison_pill(crashes: int, state: State) -> None:
    assert decide(a_job(crashes=crashes), Crashed("ada", 3), now=NOW).state is state


class Special(ValueError):
    """A kind of ValueError."""


@pytest.mark.parametrize(
    ("policy", "error", "retried"),
    [
        ({"retry_on": (ValueError,)}, ValueError(), True),
        ({"retry_on": (ValueError,)}, Special(), True),
        ({"retry_on": (ValueError,)}, KeyError(), False),
        ({"retry_on": (ValueError, KeyError)}, KeyError(), True),
        ({"no_retry_on": (ValueError,)}, ValueError(), False),
        ({"no_retry_on": (ValueError,)}, Special(), False),
        ({"no_retry_on": (ValueError,)}, KeyError(), True),
        ({"no_retry_on": (Special,), "retry_on": (ValueError,)}, Special(), False),
        ({"no_retry_on": (Special,), "retry_on": (ValueError,)}, ValueError(), True),
        ({"no_retry_on": (BaseException,)}, Retry(), True),
        ({"retry_on": ()}, Retry(), True),
        ({"retry_on": (JobTimeout,)}, JobTimeout(), True),
        ({"no_retry_on": (TimeoutError,)}, JobTimeout(), False),
    ],
)
def test_retry_on_and_no_retry_on_decide_which_errors_are_retried(
    policy: dict[str, Any], error: BaseException, retried: bool
) -> None:
    outcome = decide(a_job(), error, now=NOW, policy=Policy(**policy))
    assert outcome.state is (State.PENDING if retried else State.DEAD)


def test_a_backoff_function_decides_the_delay() -> None:
    policy = Policy(max_retries=9, backoff=lambda n: n * 100)
    assert [decide(a_job(n), ValueError(), now=NOW, policy=policy).run_at for n in (1, 2)] == [later(100), later(200)]


def _raise(n: int) -> float:
    raise RuntimeError("broken")


@pytest.mark.parametrize(
    "broken",
    [_raise, lambda n: "soon", lambda n: None, lambda n: float("nan"), lambda n: float("inf"), lambda n: 1e30],
    ids=["raises", "text", "None", "nan", "inf", "beyond the calendar"],
)
def test_a_broken_backoff_function_still_gives_a_retry_time(broken: Callable[[int], Any]) -> None:
    outcome = decide(a_job(), ValueError(), now=NOW, policy=Policy(backoff=broken))
    assert outcome.state is State.PENDING
    assert outcome.run_at is not None
    assert NOW <= outcome.run_at <= NOW + timedelta(days=366 * 1000)


def test_a_negative_backoff_is_no_delay() -> None:
    assert decide(a_job(), ValueError(), now=NOW, policy=Policy(backoff=lambda n: -5)).run_at == NOW


@pytest.mark.parametrize("span", [5, 5.0, timedelta(seconds=5)])
def test_retry_and_snooze_accept_seconds_or_a_timedelta(span: Any) -> None:
    assert (Retry(after=span).after, Snooze(span).delay) == (5.0, 5.0)


@pytest.mark.parametrize("span", [-1, "soon", True, float("nan"), float("inf"), timedelta(seconds=-1)])
@pytest.mark.parametrize(("kind", "name"), [(lambda span: Retry(after=span), "Retry"), (Snooze, "Snooze")])
def test_retry_and_snooze_refuse_an_invalid_span(kind: Callable[[Any], Any], name: str, span: Any) -> None:
    with pytest.raises(BadInput, match=rf"{name}\(.*takes a span such as"):
        kind(span)


def test_seconds_names_the_option_in_its_error() -> None:
    with pytest.raises(BadInput) as refused:
        seconds(-3, "the wait")
    assert str(refused.value) == "the wait takes a span such as 30, '4s', '1h30m' or a timedelta, 0 or more; got -3"


# errors as text


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Liar(Exception):
    def __str__(self) -> str:
        return 42  # type: ignore[return-value]


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("plain"), "plain"),
        (ValueError(), ""),
        (Mute(), "<the exception's __str__ raised RuntimeError>"),
        (Liar(), "<the exception's __str__ raised TypeError>"),
        (ValueError("a\x00b"), "a\\x00b"),
        (ValueError("a\ud800b"), "a\\ud800b"),
        (ValueError("naïve ✓ 日本 🎉"), "naïve ✓ 日本 🎉"),
        (KeyError("key"), "'key'"),
        (ExceptionGroup("two", [ValueError("a"), KeyError("b")]), "two (2 sub-exceptions)"),
    ],
    ids=repr,
)
def test_failure_of_an_error_with_a_broken_str_has_a_message(error: BaseException, message: str) -> None:
    failure = failure_of(raised(error))
    assert (failure.type, failure.message) == (type(error).__name__, message)
    assert type(error).__name__ in failure.stack
    failure.stack.encode()


def test_failure_type_of_a_nested_class_is_its_qualified_name() -> None:
    class Local(Exception):
        pass

    assert failure_of(Local()).type.endswith("<locals>.Local")


def test_failure_stack_shows_where_the_error_was_raised() -> None:
    assert "raised\n    raise error\nValueError: here" in failure_of(raised(ValueError("here"))).stack


def test_failure_stack_shows_every_error_of_an_exception_group() -> None:
    stack = failure_of(raised(ExceptionGroup("two", [ValueError("first"), KeyError("second")]))).stack
    assert "ValueError: first" in stack
    assert "KeyError: 'second'" in stack


def test_failure_stack_shows_the_cause() -> None:
    try:
        try:
            raise KeyError("the root")
        except KeyError as root:
            raise ValueError("the fruit") from root
    except ValueError as fruit:
        stack = failure_of(fruit).stack
    assert stack.index("the root") < stack.index("direct cause") < stack.index("the fruit")


def test_failure_of_an_error_that_is_its_own_cause_terminates() -> None:
    error = ValueError("round and round")
    error.__cause__ = error
    assert "round and round" in failure_of(raised(error)).stack


def test_failure_of_a_directive_has_no_stack() -> None:
    assert failure_of(raised(Discard("no use")), stack=False).stack == ""


def test_a_huge_error_keeps_its_head_and_tail_within_the_limits() -> None:
    failure = failure_of(raised(ValueError("head" + "x" * 900_000 + "tail")))
    assert failure.message.startswith("head")
    assert failure.message.endswith("tail")
    assert "characters left out" in failure.message
    assert len(failure.message) <= MAX_MESSAGE_CHARACTERS
    assert len(failure.stack) <= MAX_STACK_CHARACTERS


def test_an_error_too_long_to_mask_keeps_only_its_head() -> None:
    """The tail may be part of a secret, which cannot be detected without the text before it."""
    failure = failure_of(raised(ValueError("head " + "x " * 5_000_000 + "tail")))
    assert failure.message.startswith("head x x")
    assert not failure.message.endswith("tail")
    assert len(failure.message) <= MAX_MESSAGE_CHARACTERS


def test_a_long_chain_of_causes_keeps_its_head_and_tail_within_the_limit() -> None:
    error: BaseException = raised(KeyError("the root"))
    for n in range(200):
        chained = ValueError(f"cause {n}")
        chained.__cause__ = error
        error = raised(chained)
    stack = failure_of(error).stack
    assert "the root" in stack[:500]
    assert stack.endswith("ValueError: cause 199\n")
    assert len(stack) <= MAX_STACK_CHARACTERS


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("", ""),
        ("short", "short"),
        ("x" * 100, "x" * 100),
        ("\x00", "\\x00"),
        ("\udfff", "\\udfff"),
        ("\x01\n", "\x01\n"),
    ],
)
def test_clean_removes_characters_that_cannot_be_stored(text: str, cleaned: str) -> None:
    assert clean(text, 100) == cleaned


def test_clean_states_how_many_characters_were_left_out() -> None:
    text = clean("A" * 600 + "B" * 600, 1000)
    left_out = 1200 - text.count("A") - text.count("B")
    assert text.startswith("AAA")
    assert text.endswith("BBB")
    assert f"\n… {left_out} characters left out …\n" in text
    assert len(text) <= 1000


async def test_failure_stack_begins_with_the_code_of_the_task() -> None:
    app = Mainspring("memory://", retry_max=0)

    @app.task
    async def fail() -> None:
        raise ValueError("here")

    @app.task
    async def misuse() -> None:
        Snooze(-1)

    async with app:
        jobs = [await task.enqueue() for task in (fail, misuse)]
        await app.drain()
        failures = [(await job.job()).failure for job in jobs]
    for failure in failures:
        assert failure
        assert failure.stack.partition('File "')[2].startswith(__file__)
    assert failures[1]
    assert "in seconds" in failures[1].stack  # functions that the task called are included, also those of mainspring


def test_failure_stack_of_an_engine_error_is_complete() -> None:
    with pytest.raises(BadInput) as caught:
        checked_role("emperor")
    error = caught.value.with_traceback(caught.value.__traceback__ and caught.value.__traceback__.tb_next)
    assert "in checked_role" in failure_of(error).stack
