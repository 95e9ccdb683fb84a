"""The process pool: children are reused, replaced when spoilt, killed on cancellation, and never left behind."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jobs_for_children as jobs
import pytest
from children import Ears, children, ends, order

from mainspring import BadTask, SystemClock
from mainspring.executor.pool import MIN_LIFE_SECONDS, REAP_EVERY_SECONDS, ProcessPool, import_path_of
from mainspring.executor.protocol import LogMessage, ProcessDiedMessage, Raised, Returned, RunRequest
from mainspring.testing import VirtualClock


@pytest.fixture
def pool(clock: VirtualClock) -> Iterator[ProcessPool]:
    """Whatever a test does, no child and no file stays behind."""
    before, files = children(), open_files()
    pool = ProcessPool(clock)
    yield pool
    pool.close()
    assert children() == before
    assert open_files() == files


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def call(pool: ProcessPool, fn: Any, /, **arguments: Any) -> Any:
    """The function's value."""
    return value(await pool.call(order(fn, arguments), print))


def value(ended: Any) -> Any:
    assert isinstance(ended, Returned), ended
    return json.loads(ended.result or "null")


async def begun(pool: ProcessPool, given: RunRequest) -> tuple[asyncio.Task[Any], Any]:
    """Starts a call; returns it with the text of its first message."""
    ears = Ears()
    task = asyncio.create_task(pool.call(given, ears))
    return task, (await ears.first()).text


# warm


async def test_a_child_runs_one_job_after_the_other(pool: ProcessPool) -> None:
    assert len({await call(pool, jobs.pid) for _ in range(20)}) == 1


async def test_calls_at_the_same_time_never_share_a_child(pool: ProcessPool) -> None:
    for _ in range(5):
        assert len(set(await asyncio.gather(*(call(pool, jobs.pid) for _ in range(3))))) == 3
    assert len(children()) >= 3


async def test_a_child_is_replaced_after_its_maximum_of_runs(
    pool: ProcessPool, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.executor.pool.MAX_RUNS_PER_CHILD", 3)
    first, second = [await call(pool, jobs.pid) for _ in range(2)]
    clock.advance(seconds=MIN_LIFE_SECONDS)
    third, fourth = [await call(pool, jobs.pid) for _ in range(2)]
    assert first == second == third != fourth


async def test_a_child_is_not_replaced_before_its_minimum_of_life(
    pool: ProcessPool, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.executor.pool.MAX_RUNS_PER_CHILD", 3)
    first = await call(pool, jobs.pid)
    clock.advance(seconds=MIN_LIFE_SECONDS - 1)
    assert {await call(pool, jobs.pid) for _ in range(6)} == {first}


async def test_a_child_that_leaks_is_replaced(pool: ProcessPool) -> None:
    first = await call(pool, jobs.keep, mib=1)
    assert await call(pool, jobs.keep, mib=260) == first
    assert await call(pool, jobs.pid) != first


async def test_memory_kept_by_a_functions_first_run_is_no_leak(pool: ProcessPool) -> None:
    first = await call(pool, jobs.pid)
    assert await call(pool, jobs.keep, mib=260) == first
    assert await call(pool, jobs.pid) == first


async def test_children_not_needed_for_a_minute_end(pool: ProcessPool, clock: VirtualClock) -> None:
    pids = await asyncio.gather(*(call(pool, jobs.pid) for _ in range(2)))
    await clock.elapse(seconds=REAP_EVERY_SECONDS)
    assert set(pids) <= children()
    last = await call(pool, jobs.pid)
    await clock.elapse(seconds=REAP_EVERY_SECONDS)
    assert all(ends(pid) for pid in pids if pid != last)
    assert await call(pool, jobs.pid) == last
    await clock.elapse(seconds=2 * REAP_EVERY_SECONDS)
    assert ends(last)


async def test_a_child_that_dies_between_runs_is_replaced(pool: ProcessPool) -> None:
    first = await call(pool, jobs.pid)
    os.kill(first, signal.SIGKILL)
    assert await call(pool, jobs.pid) != first


async def test_a_child_found_dead_is_reaped(pool: ProcessPool) -> None:
    first = await call(pool, jobs.pid)
    os.kill(first, signal.SIGKILL)
    assert ends(first)
    while first in children():
        await asyncio.sleep(0)
    assert await call(pool, jobs.pid) != first


async def test_children_that_do_not_start_are_reported(pool: ProcessPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    ended = await pool.call(order(jobs.pid), print)
    assert isinstance(ended, Raised)
    assert ended.bases == ()
    assert "no child process could be started (exited with status 1)" in ended.failure.message


async def test_a_missing_interpreter_is_reported(pool: ProcessPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/no/python")
    ended = await pool.call(order(jobs.pid), print)
    assert isinstance(ended, Raised)
    assert "No such file or directory: '/no/python'" in ended.failure.message


async def test_an_error_in_a_message_handler_is_logged_and_the_run_goes_on(
    pool: ProcessPool, caplog: pytest.LogCaptureFixture
) -> None:
    def deaf(_message: object) -> None:
        raise RuntimeError("deaf")

    assert isinstance(await pool.call(order(jobs.tell), deaf), Returned)
    assert "handling message LogMessage" in caplog.text


# poison


async def test_crashes_do_not_harm_other_children(pool: ProcessPool) -> None:
    poisons = [
        order(jobs.crash, {"how": "segfault"}),
        order(jobs.crash, {"how": "exit 3"}),
        order(jobs.crash, {"how": "kill"}),
        order(jobs.allocate, {"mib": 200}, memory_limit=20 * 2**20),
        order(jobs.burn, {"seconds": 1.0}, cpu_limit=0.1),
    ]
    for poison in poisons:
        bad = asyncio.create_task(pool.call(poison, print))
        good = [call(pool, jobs.add, a=n) for n in range(3)]
        assert await asyncio.gather(*good) == [1, 2, 3]
        assert isinstance(await bad, ProcessDiedMessage | Raised)


async def test_helpers_do_not_outlive_a_crash(pool: ProcessPool) -> None:
    task, helper = await begun(pool, order(jobs.crash_with_a_helper))
    assert await task == ProcessDiedMessage("exited with status 1", task.result().usage)
    assert ends(int(helper))


async def test_messages_sent_before_a_crash_are_received(pool: ProcessPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.executor.process._CHUNK_BYTES", 64)
    ears = Ears()
    task = asyncio.create_task(pool.call(order(jobs.many_last_words), ears))
    assert ends(int((await ears.first()).text))
    assert isinstance(await task, ProcessDiedMessage)
    assert ears.heard[1:] == [LogMessage(20, "goodbye")] * 100


async def test_a_fork_that_holds_the_connection_does_not_hide_a_death(pool: ProcessPool) -> None:
    task, fork = await begun(pool, order(jobs.leave_a_fork_behind))
    try:
        assert (await asyncio.wait_for(task, 5)).reason == "exited with status 4"
    finally:
        os.kill(int(fork), signal.SIGKILL)


async def test_a_fork_that_writes_for_ever_does_not_hold_the_worker(pool: ProcessPool) -> None:
    task, fork = await begun(pool, order(jobs.flood_from_a_fork))
    try:
        assert (await asyncio.wait_for(task, 20)).reason == "exited with status 4"
    finally:
        os.kill(int(fork), signal.SIGKILL)


async def test_a_forked_copy_that_returns_is_not_taken_for_the_run(pool: ProcessPool) -> None:
    """Its report would count for the next run in the same child."""
    first = await pool.call(order(jobs.return_twice), print)
    second = await pool.call(order(jobs.wait_a_little, {"seconds": 1.0}), print)
    assert isinstance(first, Returned)
    assert isinstance(second, Returned)
    assert (first.result, second.result) == ('"the run"', '"waited"')


async def test_an_exit_status_taken_by_other_code_is_reported(pool: ProcessPool) -> None:
    task, pid = await begun(pool, order(jobs.wait))
    os.kill(int(pid), signal.SIGKILL)
    os.waitpid(int(pid), 0)
    assert (await task).reason == "ended, and other code has taken its exit status"


async def test_a_child_that_dies_slowly_is_reported_as_a_crash(
    pool: ProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.executor.process._readable", lambda *_: False)
    for how, reason in (("segfault", "killed by SIGSEGV"), ("exit 3", "exited with status 3")):
        assert (await pool.call(order(jobs.crash, {"how": how}), print)).reason == reason


async def test_a_crash_of_a_child_is_noticed_without_pidfds(pool: ProcessPool, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_pid: int) -> int:
        raise OSError

    monkeypatch.setattr("os.pidfd_open", none)
    assert await call(pool, jobs.add, a=1) == 2
    assert (await pool.call(order(jobs.crash, {"how": "segfault"}), print)).reason == "killed by SIGSEGV"
    assert (await pool.call(order(jobs.crash, {"how": "exit 3"}), print)).reason == "exited with status 3"
    assert await call(pool, jobs.add, a=1) == 2


# cancel


@pytest.mark.parametrize("fn", [jobs.wait, jobs.wait_in_c], ids=lambda fn: fn.__name__)
async def test_a_cancelled_call_kills_and_reaps_its_child(pool: ProcessPool, fn: Any) -> None:
    task, pid = await begun(pool, order(fn))
    task.cancel()
    async with asyncio.timeout(2):
        await asyncio.wait([task])
    assert task.cancelled()
    assert int(pid) not in children()


async def test_a_cancelled_call_kills_the_helpers_too(pool: ProcessPool) -> None:
    task, helper = await begun(pool, order(jobs.wait_with_a_helper))
    task.cancel()
    await asyncio.wait([task])
    assert ends(int(helper), 2)


async def test_a_call_cancelled_while_its_child_starts_kills_and_reaps_it(pool: ProcessPool) -> None:
    before = children()
    task = asyncio.create_task(pool.call(order(jobs.pid), print))
    await asyncio.sleep(0)
    assert len(children() - before) == 1
    task.cancel()
    async with asyncio.timeout(2):
        await asyncio.wait([task])
    assert task.cancelled()
    assert children() == before


async def test_a_cancelled_call_leaves_the_others_alone(pool: ProcessPool) -> None:
    task, _ = await begun(pool, order(jobs.wait))
    other, pid = await begun(pool, order(jobs.wait))
    task.cancel()
    await asyncio.wait([task])
    assert int(pid) in children()
    other.cancel()
    await asyncio.wait([other])


# soft timeouts


async def soft(pool: ProcessPool, clock: VirtualClock, fn: Any, /, **arguments: Any) -> Any:
    task, _ = await begun(pool, order(fn, arguments, soft_timeout=10.0))
    await clock.elapse(seconds=9.9)
    assert not task.done()
    await clock.elapse(seconds=0.1)
    return await asyncio.wait_for(task, 10)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The virtual clock need not wait long for children that are held on purpose."""
    monkeypatch.setattr("mainspring.testing.clock.THREAD_WAIT_SECONDS", 0.02)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fn", [jobs.stopped, jobs.await_for_ever, jobs.spin_for_ever], ids=lambda fn: fn.__name__)
async def test_a_function_is_interrupted_at_its_soft_timeout(pool: ProcessPool, clock: VirtualClock, fn: Any) -> None:
    ended = await soft(pool, clock, fn)
    assert isinstance(ended, Raised)
    assert (ended.kind, ended.bases[0], ended.failure.type) == ("timeout", "mainspring.errors.JobTimeout", "JobTimeout")
    assert ended.failure.message == "took longer than its soft_timeout of 10 s"
    assert f"in {fn.__name__}\n" in ended.failure.stack


@pytest.mark.usefixtures("impatient")
async def test_a_value_returned_after_the_interruption_counts(pool: ProcessPool, clock: VirtualClock) -> None:
    assert value(await soft(pool, clock, jobs.until_told)) == "cancelled: True"


@pytest.mark.usefixtures("impatient")
async def test_an_interruption_never_cuts_a_message_in_two(pool: ProcessPool, clock: VirtualClock) -> None:
    ears = Ears()
    task = asyncio.create_task(pool.call(order(jobs.chatter, soft_timeout=1.0), ears))
    pid = int((await ears.first()).text)
    assert not ends(pid, 0.3)  # no process reads: it is blocked in the middle of a line
    clock.advance(seconds=1)
    assert not ends(pid, 0.1)
    assert (await asyncio.wait_for(task, 10)).kind == "timeout"
    assert set(ears.heard[1:]) == {LogMessage(20, "\x01" * 8000)}


async def test_a_late_interruption_does_not_hit_the_next_run(pool: ProcessPool, clock: VirtualClock) -> None:
    child = await call(pool, jobs.pid)
    for _ in range(20):
        os.kill(child, signal.SIGUSR1)
        assert await call(pool, jobs.add, a=1) == 2
    assert await call(pool, jobs.pid) == child


# surroundings


async def test_a_child_inherits_only_the_files_it_needs(pool: ProcessPool) -> None:
    mine = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(mine, True)
    try:
        told = await call(pool, jobs.surroundings)
    finally:
        os.close(mine)
    assert len(told["fds"]) == 3 + 3 + 1  # standard ones; connection, lifeline and start mark; the listing itself
    assert told["stdin"]


async def test_a_child_has_the_sys_path_and_argv_of_its_worker(
    pool: ProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["prog", "-x", ""])
    monkeypatch.syspath_prepend("/somewhere/else")
    told = await call(pool, jobs.surroundings)
    assert told["path"] == sys.path
    assert told["argv"] == ["prog", "-x", ""]


async def test_a_child_has_a_process_group_of_its_own(pool: ProcessPool) -> None:
    assert (await call(pool, jobs.surroundings))["group"] == await call(pool, jobs.pid)


async def test_a_child_leaves_sigint_and_sigterm_to_the_worker(pool: ProcessPool) -> None:
    assert await call(pool, jobs.signalled) == f"alive, its program ended with {-signal.SIGTERM}"


# the end


async def test_closing_ends_the_idle_children_and_runs_their_exit_handlers(clock: VirtualClock, tmp_path: Path) -> None:
    pool = ProcessPool(clock)
    await call(pool, jobs.note_the_exit, path=str(tmp_path / "note"))
    pid = await call(pool, jobs.pid)
    pool.close()
    assert pid not in children()
    assert (tmp_path / "note").read_text() == "left"


async def test_a_child_that_hangs_at_its_exit_is_killed(pool: ProcessPool) -> None:
    pid = await call(pool, jobs.hang_at_exit)
    pool.close()
    assert pid not in children()


async def test_an_idle_child_that_hangs_at_its_exit_is_ended(pool: ProcessPool, clock: VirtualClock) -> None:
    pid = await call(pool, jobs.hang_at_exit)
    await clock.elapse(seconds=2 * REAP_EVERY_SECONDS)
    assert ends(pid)


async def test_closing_lets_a_busy_child_end_its_run(pool: ProcessPool) -> None:
    task = asyncio.create_task(pool.call(order(jobs.pid), print))
    await asyncio.sleep(0)
    pool.close()
    pid = value(await task)
    assert ends(pid)
    while pid in children():
        await asyncio.sleep(0)


PARENT = """
import asyncio, sys
import jobs_for_children as jobs
from children import order
from mainspring import SystemClock
from mainspring.executor.pool import ProcessPool

async def main():
    pool = ProcessPool(SystemClock())
    await pool.call(order(getattr(jobs, sys.argv[1])), lambda message: print(message.text, flush=True))

asyncio.run(main())
"""


@pytest.mark.parametrize("fn", [jobs.wait, jobs.wait_in_c, jobs.wait_with_a_helper], ids=lambda fn: fn.__name__)
def test_no_child_outlives_a_worker_that_is_killed(fn: Any) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, fn.__name__], stdout=subprocess.PIPE, env=here()) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    assert ends(pid)


def here() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


# scripts

SCRIPT = """
import asyncio
from mainspring import SystemClock, Mainspring
from mainspring.executor.pool import ProcessPool, import_path_of
from mainspring.executor.protocol import RunRequest
from children import job_of

app = Mainspring("memory://")

@app.task
def double(n: int) -> int:
    print("doubling", n)
    return helper(n)

def helper(n):
    return 2 * n

async def main():
    module, qualname, main = import_path_of(double.fn)
    pool = ProcessPool(SystemClock())
    order = RunRequest(module=module, qualname=qualname, main=main, job=job_of('{"n": 21}'), result_limit=100)
    print(await pool.call(order, print), flush=True)
    pool.close()

"""
GUARDED = SCRIPT + "if __name__ == '__main__':\n    asyncio.run(main())\n"
OPEN = SCRIPT + "asyncio.run(main())\n"


def play(*command: str, cwd: Path) -> str:
    return subprocess.run(
        [sys.executable, *command], cwd=cwd, env=here(), capture_output=True, text=True, timeout=30, check=True
    ).stdout


def test_a_task_in_a_script_runs(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(GUARDED)
    said = play("script.py", cwd=tmp_path)
    assert "Returned(result='42'" in said
    assert "doubling 21\n" in said


def test_a_task_in_a_module_run_as_a_script_runs(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "script.py").write_text(
        GUARDED.replace("import asyncio", "import asyncio\nfrom . import __name__ as _", 1)
    )
    assert "Returned(result='42'" in play("-m", "package.script", cwd=tmp_path)


def test_the_error_of_a_script_without_a_main_guard_names_the_guard(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(OPEN)
    said = play("script.py", cwd=tmp_path)
    assert "Raised(" in said
    assert "start it under `if __name__ == '__main__':`" in said


def test_a_process_task_from_python_dash_c_is_refused(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        play("-c", GUARDED, cwd=tmp_path)
    assert "BadTask: executor='process' needs a function in a file, and 'double' was typed in" in failed.value.stderr


@pytest.mark.parametrize("fn", [lambda: None, functools.partial(jobs.pid)], ids=["lambda", "partial"])
def test_a_function_that_no_child_could_find_is_refused(fn: Any) -> None:
    with pytest.raises(BadTask, match="executor='process' needs a module-level function, got"):
        import_path_of(fn)


async def test_a_process_pool_works_with_the_system_clock() -> None:
    pool = ProcessPool(SystemClock())
    assert await call(pool, jobs.add, a=1) == 2
    pool.close()
