"""An acknowledged job is stored, whatever happens to its client."""

import signal
import subprocess
import sys

from crew import HERE, Crew
from ground import each, on_a_file, slow_on_a_server
from victim import make

# The client prints each id after enqueue has returned, in one write. An alarm ends a process that hangs.
PREAMBLE = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
signal.alarm(60)
os.register_at_fork(after_in_child=lambda: signal.alarm(5))
from victim import make
app = make(sys.argv[1])
quick = app.tasks["quick"]
def tell(handle):
    os.write(1, handle.id.encode() + b"\\n")
"""


def run(program: str, url: str, timeout: float = 30.0) -> subprocess.CompletedProcess[str]:
    """Runs the program to its end, with the app of victim.py and tell()."""
    command = [sys.executable, "-c", PREAMBLE + program, url, str(HERE)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


@each("count", [1, 2, 25], [25])
def test_an_acknowledged_job_outlives_the_kill_of_its_enqueuer(crew: Crew, count: int) -> None:
    ended = run(f"for _ in range({count}): tell(quick.sync.enqueue())\nos.kill(os.getpid(), signal.SIGKILL)", crew.url)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    ids = ended.stdout.split()
    assert len(ids) == count
    crew.start("worker")
    crew.finished()
    crew.audit().check(ids, attempts=1)


def test_an_enqueuer_killed_in_the_middle_of_its_stream_loses_no_acknowledged_job(crew: Crew) -> None:
    program = "while True: [tell(handle) for handle in app.sync.enqueue_many([quick.job() for _ in range(20)])]"
    command = [sys.executable, "-c", PREAMBLE + program, crew.url, str(HERE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as enqueuer:
        assert enqueuer.stdout is not None
        ids = [enqueuer.stdout.readline().strip() for _ in range(500)]
        enqueuer.kill()
        ids += [line.strip() for line in enqueuer.stdout if line.endswith("\n")]
    audit = crew.audit()
    audit.check(ids, final=False)
    assert len(audit.jobs) % 20 == 0


def test_jobs_enqueued_by_a_forked_child_and_its_parent_all_run(crew: Crew) -> None:
    program = """
tell(quick.sync.enqueue())
if (child := os.fork()) == 0:
    tell(quick.sync.enqueue())
    assert len(app.sync.jobs.list()) >= 2
    os._exit(0)
tell(quick.sync.enqueue())
sys.exit(os.waitpid(child, 0)[1])
"""
    ended = run(program, crew.url)
    assert ended.returncode == 0, ended.stderr
    ids = ended.stdout.split()
    assert len(ids) == 3
    crew.start("worker")
    crew.finished()
    crew.audit().check(ids, attempts=1)


def test_a_forked_child_can_enqueue_after_its_parent_has_closed_the_app(crew: Crew) -> None:
    program = """
begun, begin = os.pipe()
closed, close = os.pipe()
tell(quick.sync.enqueue())
if (child := os.fork()) == 0:
    tell(quick.sync.enqueue())
    os.write(begin, b"x")
    os.read(closed, 1)
    tell(quick.sync.enqueue())
    os._exit(0)
os.read(begun, 1)
app.sync.close()
os.write(close, b"x")
sys.exit(os.waitpid(child, 0)[1])
"""
    ended = run(program, crew.url)
    assert ended.returncode == 0, ended.stderr
    ids = ended.stdout.split()
    assert len(ids) == 3
    crew.audit().check(ids, final=False)


@slow_on_a_server
def test_a_child_forked_during_writes_can_enqueue(crew: Crew) -> None:
    program = """
import threading
tell(quick.sync.enqueue())
def stream():
    while going:
        for handle in app.sync.enqueue_many([quick.job() for _ in range(20)]):
            tell(handle)
going = True
thread = threading.Thread(target=stream)
thread.start()
failed = 0
for _ in range(5):
    if (child := os.fork()) == 0:
        tell(quick.sync.enqueue())
        os._exit(0)
    failed += os.waitpid(child, 0)[1] != 0
going = False
thread.join()
sys.exit(failed)
"""
    ended = run(program, crew.url, 70)
    assert ended.returncode == 0, f"{ended.returncode} of 5 children failed: {ended.stderr}"
    crew.audit().check(ended.stdout.split(), final=False)


@on_a_file
def test_closing_a_second_app_on_one_sqlite_file_loses_no_job(crew: Crew) -> None:
    # Closing any handle on a file drops the locks this process has on it (POSIX): SQLite's as well.
    crew.enqueue("quick")
    second = make(crew.url)
    second.sync.stats()
    other = run("tell(quick.sync.enqueue())\napp.sync.close()", crew.url)
    assert other.returncode == 0, other.stderr
    crew.enqueue("quick")
    second.sync.close()
    crew.enqueue("quick")
    seen = run("for job in app.sync.jobs.list(): os.write(1, job.id.encode() + b'\\n')", crew.url).stdout.split()
    assert sorted(seen) == sorted(crew.acknowledged + other.stdout.split())
    crew.audit().check(seen, final=False)


@on_a_file
def test_sqlite_files_are_accessible_to_their_owner_only(crew: Crew) -> None:
    crew.enqueue("quick")
    assert {file.stat().st_mode & 0o77 for file in crew.ground.path.parent.iterdir()} == {0}
