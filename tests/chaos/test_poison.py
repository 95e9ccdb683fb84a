"""A job that kills its worker dies alone."""

from audit import until
from crew import Crew


def test_a_poison_pill_is_dead_after_three_crashes_and_its_neighbours_complete(crew: Crew) -> None:
    (poison,) = crew.enqueue("poison")
    innocent = crew.enqueue("quick", times=10)
    worker = crew.start("worker")

    def final_under_a_supervisor() -> bool:
        nonlocal worker
        if worker.dead():
            worker = crew.start("worker")
        return crew.all_final()

    until(final_under_a_supervisor, 40)
    worker.end()
    audit = crew.audit()
    audit.check(crew.acknowledged, attempts=4)
    dead = audit.jobs[poison]
    assert (dead.state, dead.crashes, dead.failure and dead.failure.type) == ("dead", 3, "PoisonPill")
    assert audit.endings(poison) == ["crashed"] * 3
    assert [audit.jobs[id].state.value for id in innocent] == ["completed"] * 10
