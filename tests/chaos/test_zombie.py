"""A worker that was stopped for longer than its lease, or whose event loop is blocked."""

import signal

from audit import until
from crew import Crew
from ground import slow_on_a_server, slow_on_keys
from victim import LEASE


@slow_on_keys
def test_late_outcomes_of_a_stopped_worker_change_nothing(crew: Crew) -> None:
    gate = crew.folder / "gate"
    zombie = crew.up("zombie")
    ids = crew.enqueue("held", str(gate), times=5)
    until(lambda: len(zombie.lines()) == 5)
    crew.freeze(zombie)
    gate.touch()
    other = crew.up("other")
    crew.finished()
    settled = crew.jobs(ids)

    zombie.process.send_signal(signal.SIGCONT)
    until(lambda: {line.id for line in zombie.lines("lost")} == set(ids))
    assert zombie.said().count("lease lost") >= 5
    assert crew.jobs(ids) == settled

    other.end()
    fresh = crew.enqueue("quick", times=5)
    crew.finished()
    assert {line.id for line in zombie.lines()} == {*ids, *fresh}
    zombie.end()
    audit = crew.audit()
    audit.check(crew.acknowledged)
    assert [audit.endings(id) for id in ids] == [["crashed", "completed"]] * 5
    assert [audit.endings(id) for id in fresh] == [["completed"]] * 5


@slow_on_keys
def test_late_outcomes_do_not_end_the_run_of_another_worker(crew: Crew) -> None:
    gate = crew.folder / "gate"
    zombie = crew.up("zombie")
    ids = crew.enqueue("held", str(gate), times=5)
    until(lambda: len(zombie.lines()) == 5)
    crew.freeze(zombie)
    other = crew.up("other", beat=5, lease=20)
    until(lambda: len(other.lines()) == 5)
    running = crew.jobs(ids)

    # The zombie's runs end while the other's go on: only the lease tells them apart.
    crew.freeze(other)
    gate.touch()
    zombie.process.send_signal(signal.SIGCONT)
    until(lambda: {line.id for line in zombie.lines("lost")} == set(ids))
    assert crew.jobs(ids) == running
    other.process.send_signal(signal.SIGCONT)
    crew.finished()
    audit = crew.audit()
    audit.check(crew.acknowledged)
    assert [audit.endings(id) for id in ids] == [["crashed", "completed"]] * 5
    assert {audit.runs[id][-1].lease for id in ids} <= {line.lease for line in other.lines()}


@slow_on_a_server
def test_a_task_that_blocks_the_event_loop_keeps_its_lease(crew: Crew) -> None:
    hogged = crew.up("hogged")
    crew.enqueue("hog", 2 * LEASE)
    until(hogged.lines)
    # The worker that would rescue the run: it sweeps meanwhile.
    crew.up("other")
    crew.finished()
    audit = crew.audit()
    audit.check(crew.acknowledged, attempts=1)
    assert [audit.endings(id) for id in crew.acknowledged] == [["completed"]]
    assert not hogged.lines("lost")
