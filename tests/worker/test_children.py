"""A child process and its run requests: values, failures, messages, limits and crashes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import jobs_for_children as jobs
import msgspec
import pytest
from children import NOW, Play, job_of

from mainspring import Backoff, Cancel, Discard, Retry, Snooze
from mainspring.executor.protocol import (
    ItemsMessage,
    LogMessage,
    NoteMessage,
    ProcessDiedMessage,
    ProgressMessage,
    Raised,
    Returned,
    RunRequest,
    RunSteered,
)


@pytest.fixture(scope="module")
def shared() -> Iterator[Play]:
    play = Play()
    yield play
    play.close()


@pytest.fixture
def play(shared: Play) -> Play:
    """One pool for all: whatever a test does to its child, the next one must not notice."""
    return shared


def raised(ended: Any) -> Raised:
    assert isinstance(ended, Raised), ended
    return ended


# values


@pytest.mark.parametrize("fn", [jobs.add, jobs.add_later, jobs.coroutine_of], ids=lambda fn: fn.__name__)
def test_the_result_of_a_function_is_returned_as_json(play: Play, fn: Any) -> None:
    assert play(fn, {"a": 41}).result == "42"


def test_a_function_runs_in_another_process(play: Play) -> None:
    assert play.result(jobs.pid) not in (0, os.getpid())


def test_a_function_without_a_result_returns_none(play: Play) -> None:
    assert play.result(jobs.nothing) is None


def test_arguments_are_decoded_as_the_task_declares_them(play: Play) -> None:
    assert play.result(jobs.weekday, {"day": "2030-01-01"}) == "Tuesday"


def test_a_function_is_found_inside_a_class(play: Play) -> None:
    assert play.result(jobs.Box.name) == "box"


def test_a_result_that_cannot_be_kept_is_noted(play: Play) -> None:
    ended = play(jobs.unserialisable)
    assert isinstance(ended, Returned)
    assert ended.note is not None
    assert ended.note.type == "ResultLost"


def test_a_result_over_the_limit_is_noted(play: Play) -> None:
    assert "the limit is 10 " in play(jobs.long_text, {"size": 50}, result_limit=10).note.message


def test_long_arguments_and_results_pass(play: Play) -> None:
    size = 3 * 2**20
    with pytest.raises(AssertionError, match="xxxx"):
        play.result(jobs.fail, {"text": "x" * size})
    assert len(play.result(jobs.long_text, {"size": size}, result_limit=2**23)) == size


def test_the_context_has_the_whole_job(play: Play) -> None:
    job = job_of(lease="l1", attempt=2, metadata={"a": [1]}, backoff=Backoff(initial=3), tags=("x",), started_at=NOW)
    told = play.result(jobs.whole_job, job=job, timeout=9.0, deadline=NOW + timedelta(seconds=9))
    assert told.pop("job") == json.loads(msgspec.json.encode(job))
    assert told == {
        "attempt": 2,
        "lease": "l1",
        "metadata": {"a": [1]},
        "timeout": 9.0,
        "deadline": "2030-01-01T00:00:09Z",
        "cancelled": False,
    }


def test_each_async_run_has_a_loop_of_its_own(play: Play) -> None:
    assert play.result(jobs.loops) is not None
    assert play.result(jobs.add_later, {"a": 1}) == 2


# messages


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (jobs.count_badly, "ctx.items() takes whole numbers of 0 or more, got -1"),
        (jobs.note_too_much, "ctx.note() keeps up to 65,536 bytes, got 70,"),
    ],
    ids=["items", "notes"],
)
def test_invalid_reports_raise_inside_the_task(play: Play, fn: Any, text: str) -> None:
    failure = raised(play(fn)).failure
    assert (failure.type, failure.message[: len(text)]) == ("BadInput", text)


def test_an_error_whose_class_has_no_name_is_reported_as_a_failure(play: Play) -> None:
    ended = raised(play(jobs.raise_a_nameless_one))
    assert (ended.failure.type, ended.failure.message, ended.bases) == ("Exception", "who am I", ())


def test_a_directive_that_cannot_be_encoded_is_reported_as_a_failure(play: Play) -> None:
    failure = raised(play(jobs.snooze_badly)).failure
    assert (failure.type, "Snooze(…)" in failure.message) == ("BadSetting", True)


def test_logs_progress_and_items_are_received_during_the_run(play: Play) -> None:
    play.result(jobs.tell)
    detail, long, progress, items, note, failed = play.heard
    assert detail == LogMessage(10, "a detail")
    assert isinstance(long, LogMessage)
    assert long.level == 30
    assert len(long.text) <= 8192
    assert progress == ProgressMessage(1, 4, "rows")
    assert items == ItemsMessage(3, 0, 1)
    assert note == NoteMessage({"model": "v2"})
    assert isinstance(failed, LogMessage)
    assert failed.text.startswith("failed\nTraceback")
    assert "ValueError: invalid literal" in failed.text


def test_progress_may_be_awaited(play: Play) -> None:
    play.result(jobs.tell_later)
    assert play.heard == [ProgressMessage(2), ProgressMessage(3, 3), ProgressMessage(4), ItemsMessage(failed=1)]


def test_progress_that_is_no_number_is_refused(play: Play) -> None:
    assert "finite numbers, got nan" in raised(play(jobs.tell_nonsense)).failure.message


def test_a_modules_own_logging_setup_does_not_mute_the_context(play: Play) -> None:
    play.result(jobs.tell_with_a_config_of_its_own)
    assert play.heard == [LogMessage(20, "still here")]


def test_threads_of_a_child_may_send_at_once(play: Play) -> None:
    play.result(jobs.tell_from_threads)
    assert len(play.heard) == 200
    assert all(len(set(line.text)) == 1 for line in play.heard if isinstance(line, LogMessage))


# failures


def test_an_error_comes_back_as_text(play: Play) -> None:
    ended = raised(play(jobs.fail, {"text": "not today"}))
    assert (ended.failure.type, ended.failure.message) == ("ValueError", "not today")
    assert "in fail\n" in ended.failure.stack
    assert ended.kind == "error"
    assert ended.bases[:3] == ("builtins.ValueError", "builtins.Exception", "builtins.BaseException")
    assert ended.usage is not None


def test_endless_recursion_is_an_error(play: Play) -> None:
    assert raised(play(jobs.recurse)).failure.type == "RecursionError"


def test_sys_exit_is_an_error(play: Play) -> None:
    failure = raised(play(jobs.leave)).failure
    assert (failure.type, failure.message) == ("TaskExit", "the task raised SystemExit: 3")


def test_an_error_whose_str_raises_is_reported_as_a_failure(play: Play) -> None:
    assert raised(play(jobs.broken)).failure.message == "<the exception's __str__ raised RuntimeError>"


def test_a_coroutine_that_cancels_itself_has_failed(play: Play) -> None:
    assert raised(play(jobs.cancel_itself)).failure.type == "CancelledError"


def test_a_payload_that_does_not_fit_is_unreadable(play: Play) -> None:
    ended = raised(play(jobs.weekday, {"day": "someday"}))
    assert (ended.kind, ended.bases, ended.failure.type) == ("unreadable", (), "BadPayload")
    assert "does not fit task 't'" in ended.failure.message


@pytest.mark.parametrize("by_return", [True, False], ids=["returned", "raised"])
@pytest.mark.parametrize("kind", [kind for kind in jobs.STEERS if kind != "own"])
def test_a_function_may_return_or_raise_a_directive(play: Play, kind: str, by_return: bool) -> None:
    ended = play(jobs.steer, {"kind": kind, "by_return": by_return})
    assert isinstance(ended, RunSteered)
    wanted = jobs.STEERS[kind]
    assert type(ended.steer) is type(wanted)
    assert str(ended.steer) == str(wanted)
    assert vars(ended.steer) == vars(wanted)
    assert type(ended.steer) in (Retry, Snooze, Discard, Cancel)


@pytest.mark.parametrize("by_return", [True, False], ids=["returned", "raised"])
def test_a_directive_of_no_known_kind_is_an_error(play: Play, by_return: bool) -> None:
    assert raised(play(jobs.steer, {"kind": "own", "by_return": by_return})).failure.type == "Directive"


def place(module: str, qualname: str) -> RunRequest:
    return RunRequest(module=module, qualname=qualname, job=job_of(), result_limit=100)


def test_the_error_of_a_missing_function_names_the_remedy(play: Play) -> None:
    ended = raised(play(place("jobs_for_children", "gone")))
    assert (ended.kind, ended.bases) == ("error", ())
    assert ended.failure.message == (
        "task 't': a child process finds no 'gone' in module 'jobs_for_children'; "
        "executor='process' needs a module-level function"
    )


def test_a_module_that_cannot_be_imported_is_reported_with_the_reason(play: Play) -> None:
    failure = raised(play(place("no_such_module", "fn"))).failure
    assert failure.message.endswith("child process: ModuleNotFoundError: No module named 'no_such_module'")


# limits


def test_a_run_over_its_memory_limit_fails_with_memory_limit_exceeded(play: Play) -> None:
    before = play.result(jobs.pid)
    ended = raised(play(jobs.allocate, {"mib": 200}, memory_limit=50 * 2**20))
    assert (ended.kind, ended.failure.type) == ("memory", "MemoryLimitExceeded")
    assert "memory_limit of 50 MB (peak of the whole process: " in ended.failure.message
    assert "in allocate\n" in ended.failure.stack
    assert play.result(jobs.pid) != before


def test_a_run_within_its_memory_limit_completes_and_the_limit_ends_with_it(play: Play) -> None:
    before = play.result(jobs.pid)
    assert play.result(jobs.allocate, {"mib": 30}, memory_limit=50 * 2**20) == 30 * 2**20
    assert play.result(jobs.allocate, {"mib": 80}) == 80 * 2**20
    assert play.result(jobs.pid) == before


def test_memory_left_by_an_earlier_run_is_not_charged_to_the_next(play: Play) -> None:
    before = play.result(jobs.keep, {"mib": 60})
    assert play.result(jobs.allocate, {"mib": 30}, memory_limit=50 * 2**20) == 30 * 2**20
    assert play.result(jobs.pid) == before


def test_a_memory_error_without_a_memory_limit_is_an_ordinary_error(play: Play) -> None:
    ended = raised(play(jobs.no_memory))
    assert (ended.kind, ended.failure.type) == ("error", "MemoryError")


@pytest.mark.parametrize("fn", [jobs.burn, jobs.burn_later, jobs.burn_in_a_thread], ids=lambda fn: fn.__name__)
def test_a_run_over_its_cpu_limit_fails_with_cpu_limit_exceeded(play: Play, fn: Any) -> None:
    ended = raised(play(fn, {"seconds": 0.5}, cpu_limit=0.1))
    assert (ended.kind, ended.failure.type) == ("cpu", "CpuLimitExceeded")
    assert ended.failure.message == "used more than its cpu_limit of 0.1 s"
    assert ended.bases[0] == "mainspring.executor.resource_limits.CpuLimitExceeded"
    assert ended.usage is not None
    assert ended.usage.cpu >= 0.1


def test_a_child_over_its_cpu_limit_is_not_used_again(play: Play) -> None:
    before = play.result(jobs.pid)
    raised(play(jobs.burn, {"seconds": 0.5}, cpu_limit=0.1))
    assert play.result(jobs.pid) != before


def test_code_that_cannot_be_interrupted_is_killed_over_its_cpu_limit(play: Play) -> None:
    ended = raised(play(jobs.burn_in_c, cpu_limit=0.1))
    assert (ended.kind, ended.failure.type) == ("cpu", "CpuLimitExceeded")
    assert "cpu_limit of 0.1 s" in ended.failure.message
    assert ended.bases[0] == "mainspring.executor.resource_limits.CpuLimitExceeded"
    assert ended.usage is not None
    assert 0.1 <= ended.usage.cpu < 5


def test_cpu_time_of_earlier_runs_does_not_count(play: Play) -> None:
    play.result(jobs.burn, {"seconds": 0.2})
    play.result(jobs.burn, {"seconds": 0.03}, cpu_limit=0.15)


def test_a_cpu_limit_binds_one_run_only(play: Play) -> None:
    play.result(jobs.nothing, cpu_limit=0.05)
    play.result(jobs.burn, {"seconds": 0.1})


# usage


def test_cpu_time_is_reported(play: Play) -> None:
    usage = play(jobs.burn, {"seconds": 0.1}).usage
    assert usage is not None
    assert 0.09 < usage.cpu < 1


def test_cpu_time_of_helpers_is_reported(play: Play) -> None:
    usage = play(jobs.burn_in_a_helper, {"seconds": 0.1}).usage
    assert usage is not None
    assert usage.cpu > 0.1


def test_peak_memory_is_that_of_the_run(play: Play) -> None:
    play(jobs.nothing)
    big, small = play(jobs.allocate, {"mib": 100}).usage, play(jobs.nothing).usage
    assert big is not None
    assert small is not None
    assert big.memory > 100 * 2**20
    assert 2**20 < small.memory < big.memory - 50 * 2**20


# crashes

REASONS = {
    "segfault": "killed by SIGSEGV",
    "exit 3": "exited with status 3",
    "exit 0": "exited with status 0",
    "kill": "killed by SIGKILL (out of memory?)",
    "abort": "killed by SIGABRT",
    "real-time signal": "killed by signal 50",
}


@pytest.mark.parametrize("how", REASONS)
def test_a_crash_names_what_killed_the_process(play: Play, how: str) -> None:
    ended = play(jobs.crash, {"how": how})
    assert isinstance(ended, ProcessDiedMessage)
    assert ended.reason == REASONS[how]
    assert ended.usage is not None
    assert ended.usage.cpu < 1
    assert ended.usage.memory > 2**20


def test_a_crash_under_a_memory_limit_names_the_limit(play: Play) -> None:
    ended = play(jobs.crash, {"how": "kill"}, memory_limit=64 * 2**20)
    assert ended == ProcessDiedMessage("killed by SIGKILL (out of memory?), under a memory_limit of 64 MB", ended.usage)


def test_the_last_messages_of_a_crashing_child_are_received(play: Play) -> None:
    assert isinstance(play(jobs.last_words), ProcessDiedMessage)
    assert play.heard == [LogMessage(20, "goodbye")]


def test_code_that_closes_the_connection_is_killed(play: Play) -> None:
    assert play(jobs.close_everything).reason == "closed its connection to the worker, and was killed"


def test_code_that_writes_to_the_connection_is_killed(play: Play) -> None:
    assert play(jobs.garble).reason == "garbled its connection to the worker, and was killed"
