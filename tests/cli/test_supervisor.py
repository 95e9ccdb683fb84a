"""mainspring worker --workers N: start, kill, recycle and stop of processes."""

from __future__ import annotations

import json
import os
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mainspring.cli import main

TEAM = """
import asyncio
import os
from mainspring import Mainspring

app = Mainspring("sqlite:///jobs.db", beat=0.2, lease=1, sweep=0.2, poll_interval=0.2, grace=20)
hoard = []

def say(text: str) -> None:
    os.write(1, f"{text}\\n".encode())  # one write, so that lines of several processes stay whole

@app.task
async def mark(n: int) -> None:
    await asyncio.sleep(0.005)
    say(f"marked {n} in {os.getpid()}")

@app.task
async def held(gate: str) -> None:
    say(f"held in {os.getpid()}")
    while not os.path.exists(gate):
        await asyncio.sleep(0.01)

@app.task
def grow() -> None:
    hoard.append(os.urandom(200 << 20))
    say(f"grown in {os.getpid()}")

@app.task
async def tell(variable: str) -> None:
    say(f"{variable} is {os.environ.get(variable)}")
"""


@pytest.fixture
def shop(here: Path) -> str:
    here.joinpath("shop.py").write_text(TEAM)
    return "shop:app"


@pytest.fixture
def gate(here: Path) -> Path:
    """The file that lets `held` jobs end."""
    return here / "gate"


@pytest.fixture
def team(process: Callable[..., Any], shop: str) -> Iterator[Callable[..., Any]]:
    """A supervisor whose processes all take jobs already; none of them outlives its test."""
    started = []

    def start(count: int = 2, *args: str, **env: str) -> Any:
        one = process("worker", shop, "--workers", str(count), *args, **env)
        started.append(one)
        one.logged(f"all {count} processes take jobs")
        return one

    yield start
    for one in started:
        one.popen.kill()
        for pid in pids(one):
            if Path(f"/proc/{pid}/cmdline").exists() and b"mainspring" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)


def pids(team: Any) -> list[int]:
    """The pid of every process that the supervisor has started so far."""
    return [int(pid) for line in list(team._errors) for pid in re.findall(r"process \d+ started: pid (\d+)", line)]


def pid_of(line: str) -> int:
    return int(line.split()[-1])


def jobs(cli: Callable[..., Any], shop: str) -> list[dict[str, Any]]:
    return json.loads(cli("jobs", "list", "--app", shop, "--json", "--limit", "500").stdout)


def stopped(team: Any, number: int = signal.SIGTERM) -> tuple[int, str, str]:
    team.signal(number)
    code, out, errors = team.end()
    assert "Traceback" not in errors
    return code, out, errors


# several processes


def test_several_processes_share_the_jobs_and_run_each_once(team, shop, inside):
    three = team(3, "--concurrency", "2")
    inside(lambda app: app.enqueue_many(app.tasks["mark"].job(n) for n in range(200)))
    lines = [three.line("marked") for _ in range(200)]
    assert sorted(int(line.split()[1]) for line in lines) == list(range(200))
    workers = {pid_of(line) for line in lines}
    assert len(workers) > 1
    assert workers <= set(pids(three))
    code, out, _ = stopped(three)
    assert code == 0
    assert out.splitlines()[-1] == (
        f"supervisor {three.popen.pid} stopped: 200 completed, 0 to run again, 0 dead, 0 cancelled, in 3 processes"
    )


def test_worker_names_and_log_lines_have_the_number_of_their_process(process, shop):
    two = process("worker", shop, "--log-level", "debug", MAINSPRING_WORKERS="2")
    two.logged("all 2 processes take jobs")
    code, out, errors = stopped(two)
    assert code == 0
    names = re.findall(r"^worker \S+-(\d)-(\d+)-[0-9a-f]{8} on sqlite:///jobs.db: queues all, 4 tasks, ", out, re.M)
    assert sorted(names) == [(str(number), str(pid)) for number, pid in enumerate(pids(two), 1)]
    assert set(re.findall(r"DEBUG   \[(\d)\] mainspring: worker", errors)) == {"1", "2"}


def test_supervisor_and_systemd_variables_are_hidden_from_jobs(team, enqueued):
    two = team(2, NOTIFY_SOCKET="/nowhere", WATCHDOG_USEC="9000000")
    for variable in ("MAINSPRING_SUPERVISED", "NOTIFY_SOCKET", "WATCHDOG_USEC"):
        enqueued("tell", f"variable={variable}")
        assert two.line(variable) == f"{variable} is None"


# crashes


def test_a_killed_process_is_replaced_and_its_job_runs_again(team, enqueued, gate, cli, shop):
    two = team(2)
    enqueued("held", f"gate={gate}")
    first = pid_of(two.line("held in"))
    os.kill(first, signal.SIGKILL)
    assert f"(pid {first}) ended: killed by SIGKILL; the next one starts in 0." in two.logged("ended")
    fresh = pid_of(two.logged("started"))
    second = pid_of(two.line("held in"))
    assert second in pids(two)
    assert first not in (second, fresh)
    gate.touch()
    assert stopped(two)[0] == 0
    (job,) = jobs(cli, shop)
    assert (job["state"], job["crashes"]) == ("completed", 1)


def test_supervisor_gives_up_if_no_process_can_start(process, here):
    here.joinpath("lost.py").write_text(
        "from mainspring import Mainspring\napp = Mainspring('sqlite:////no/such/dir/jobs.db')\n"
        "@app.task\nasync def f() -> None: ...\n"
    )
    code, _, errors = process("worker", "lost:app", "--workers", "2").end()
    assert code == 1
    assert "error: cannot open SQLite file '/no/such/dir/jobs.db'" in errors
    assert errors.endswith("error: no process could start, for the reason above: giving up")


def test_process_without_its_supervisor_finishes_its_job_and_stops(team, enqueued, gate, cli, shop):
    two = team(2)
    enqueued("held", f"gate={gate}")
    two.line("held in")
    two.popen.kill()
    for _ in range(2):
        two.logged("the supervisor is gone: stopping")
    gate.touch()
    counts = sorted(two.line("stopped:").split("stopped: ")[1].split(",")[0] for _ in range(2))
    assert counts == ["0 completed", "1 completed"]
    two.end()
    assert not any(reader.is_alive() for reader in two._readers), "somebody still holds the supervisor's output"


# stopping


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_running_jobs_finish(team, enqueued, gate, number):
    two = team(2)
    enqueued("held", f"gate={gate}")
    two.line("held in")
    two.signal(number)
    two.logged("stopping 2 processes: running jobs have 20 s to end")
    gate.touch()
    code, out, errors = two.end()
    assert code == 0
    assert "1 completed, 0 to run again" in out.splitlines()[-1]
    assert errors.count("ended: exit code 0") == 2


def test_a_second_signal_releases_running_jobs_at_once(team, enqueued, gate, cli, shop):
    two = team(2)
    enqueued("held", f"gate={gate}")
    two.line("held in")
    two.signal(signal.SIGTERM)
    two.logged("stopping 2 processes")
    two.logged("ended: exit code 0")  # the idle process: one that has just started could claim the released job
    two.signal(signal.SIGTERM)
    two.logged("stopping at once: running jobs are released")
    code, out, _ = two.end()
    assert code == 0
    assert "0 completed, 1 to run again" in out.splitlines()[-1]
    (job,) = jobs(cli, shop)
    assert (job["shown"], job["attempt"]) == ("pending", 0)


def test_a_signal_to_the_process_group_counts_once(team, enqueued, gate, cli, shop):
    two = team(2)
    enqueued("held", f"gate={gate}")
    worker = pid_of(two.line("held in"))
    two.signal(signal.SIGTERM)
    two.logged("ended: exit code 0")  # the idle process, so the other one has received the signal too
    os.kill(worker, signal.SIGTERM)
    assert [jobs(cli, shop)[0]["state"] for _ in range(5)] == ["running"] * 5
    gate.touch()
    assert "1 completed, 0 to run again" in two.end()[1].splitlines()[-1]


# recycling


def test_process_is_recycled_after_its_number_of_jobs_without_losing_one(team, inside):
    two = team(2, "--concurrency", "1", MAINSPRING_RECYCLE_JOBS="10")
    inside(lambda app: app.enqueue_many(app.tasks["mark"].job(n) for n in range(40)))
    lines = [two.line("marked") for _ in range(40)]
    assert sorted(int(line.split()[1]) for line in lines) == list(range(40))
    runs = Counter(map(pid_of, lines))
    assert max(runs.values()) <= 10
    assert len(runs) >= 4
    assert re.search(r"process \d \(pid \d+\) recycled: ran 10 jobs$", two.logged("recycled:"))
    code, out, errors = stopped(two)
    assert code == 0
    assert "40 completed" in out.splitlines()[-1]
    assert "the next one starts in" not in errors


def test_process_that_uses_too_much_memory_is_recycled(team, enqueued):
    two = team(2, MAINSPRING_RECYCLE_MEMORY="150MB")
    enqueued("grow")
    large = pid_of(two.line("grown in"))
    assert re.search(rf"\(pid {large}\) recycled: uses \d+ MB, more than 150 MB$", two.logged("recycled:"))
    assert pid_of(two.logged("started")) != large


def test_process_stopped_by_an_operator_is_replaced_after_its_running_job(team, cli, shop, inside, enqueued, gate):
    two = team(2, "--concurrency", "1")
    before = pids(two)
    enqueued("held", f"gate={gate}")
    busy = pid_of(two.line("held in"))
    (name,) = [worker.info.id for worker in inside(lambda app: app.workers.list()) if worker.info.pid == busy]
    assert cli("workers", "stop", name, "--app", shop).exit_code == 0
    two.logged(f"worker {name} received commands")
    gate.touch()
    assert two.logged("recycled:").endswith(f"(pid {busy}) recycled: an operator has stopped it")
    fresh = pid_of(two.logged("started: pid"))
    assert fresh not in before
    two.line(f"-{fresh}-")
    assert sorted(worker.info.pid for worker in inside(lambda app: app.workers.list())) == sorted(
        {*before, fresh} - {busy}
    )
    code, out, errors = stopped(two)
    assert code == 0
    assert "1 completed, 0 to run again" in out.splitlines()[-1]
    assert "the next one starts in" not in errors


def test_sighup_replaces_every_process_one_after_the_other(team, inside, gate):
    two = team(2, "--concurrency", "1")
    old = pids(two)
    two.signal(signal.SIGHUP)
    steps = [two.logged("process").split("mainspring: ")[1] for _ in range(5)]
    new = pids(two)[2:]
    assert steps == [
        "replacing 2 processes, one after the other",
        f"process 1 (pid {old[0]}) ended: exit code 0; the next one starts",
        f"process 1 started: pid {new[0]}",
        f"process 2 (pid {old[1]}) ended: exit code 0; the next one starts",
        f"process 2 started: pid {new[1]}",
    ]
    inside(lambda app: app.enqueue_many(app.tasks["held"].job(str(gate)) for _ in range(2)))
    assert sorted(pid_of(two.line("held in")) for _ in range(2)) == sorted(new)
    gate.touch()
    assert stopped(two)[0] == 0


def test_sighup_with_broken_code_does_not_replace_the_other_processes(team, here, inside, gate):
    two = team(2, "--concurrency", "1")
    old = pids(two)
    here.joinpath("shop.py").write_text("1 / 0\n")
    two.signal(signal.SIGHUP)
    two.logged("process 1 (pid")
    two.logged("did not come up again: the other processes are not replaced")
    here.joinpath("shop.py").write_text(TEAM)
    inside(lambda app: app.enqueue_many(app.tasks["held"].job(str(gate)) for _ in range(2)))
    assert old[1] in {pid_of(two.line("held in")) for _ in range(2)}
    gate.touch()
    assert stopped(two)[0] == 0


def test_sigttin_starts_a_process_and_sigttou_stops_one_but_not_the_last(team):
    two = team(2)
    two.signal(signal.SIGTTIN)
    two.logged("process 3 started")
    for number in (3, 2):
        two.signal(signal.SIGTTOU)
        two.logged(f"process {number} (pid {pids(two)[number - 1]}) is one too many")
        two.logged(f"process {number} (pid {pids(two)[number - 1]}) ended: ")
    two.signal(signal.SIGTTOU)
    two.logged("the last process stays")
    assert stopped(two)[0] == 0


# bad input


@pytest.mark.parametrize("count", ["0", "-1", "many", "1.5", "1001", ""])
def test_invalid_number_of_processes_is_refused(cli, shop, count):
    refused = cli("worker", shop, f"--workers={count}")
    assert refused.exit_code == 2
    assert f"--workers must be a whole number from 1 to 1000, or 'auto'; got '{count}'" in refused.stderr


def test_app_without_tasks_is_reported_once_before_any_process_is_started(process, here):
    here.joinpath("bare.py").write_text("from mainspring import Mainspring\napp = Mainspring('sqlite:///jobs.db')\n")
    code, out, errors = process("worker", "bare:app", "--workers", "3").end()
    assert (code, out) == (1, "")
    assert errors.count("register some with @app.task") == 1


def test_supervised_variable_without_a_supervisor_is_an_error(shop):
    refused = CliRunner().invoke(main, ["worker", shop], env={"MAINSPRING_SUPERVISED": "1:none"})
    assert refused.exit_code == 1
    assert "MAINSPRING_SUPERVISED=1:none is set by a supervisor for its own processes only: unset it" in refused.stderr
