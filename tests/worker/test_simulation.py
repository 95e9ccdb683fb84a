"""The simulation: it is deterministic, its faults really happen, and it finds planted bugs."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Coroutine, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from mainspring import ids
from mainspring.errors import StoreUnavailable
from mainspring.records.job import NewJob
from mainspring.schedule.record import CATCH_UPS, OVERLAPS, Spec
from mainspring.testing.clock import START
from mainspring.trigger import Window, cron, every
from simulation import BUGS, Verdict, play, reference_ticks, simulate
from simulation.__main__ import main
from simulation.audited_store import AuditedStore
from simulation.auditor import RULES, Auditor
from simulation.host import Host
from simulation.loop import Stuck, TrueClock, VirtualLoop
from simulation.network import DEADLINE_SECONDS, Link
from simulation.plan import (
    Arrange,
    Crash,
    CrashAtFiring,
    Create,
    Enqueue,
    Move,
    Nap,
    Operate,
    Plan,
    Start,
    Stop,
    draw,
)
from simulation.schedule_plan import ACTIONS, CHANGES, PlannedSchedule, SchedulePlan
from simulation.shrink import shrink
from simulation.watch import Watch

PAGE = Path(__file__).parent.parent.parent / "docs" / "simulation.md"
FOUND = {name: (int(seed), rule) for name, seed, rule in re.findall(r"^\| `([\w-]+)` .*\| (\d+) \| (\w+) \|$",
         PAGE.read_text(), re.MULTILINE)}  # fmt: skip
DOCUMENTED = sorted({seed for seed, _ in FOUND.values()})
SEEDS = [*DOCUMENTED, 15, 16, *range(112, 120)]


@pytest.fixture(scope="module")
def verdicts() -> list[Verdict]:
    """The stories of these seeds without a bug: the documented ones break no rule then either."""
    return [simulate(seed) for seed in SEEDS]


# the engine


def test_engine_breaks_no_rule_in_twenty_seeds(verdicts: list[Verdict]) -> None:
    assert [verdict.report() for verdict in verdicts if not verdict.fine] == []


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_is_found_by_its_documented_seed(bug: str) -> None:
    seed, rule = FOUND[bug]
    assert [violation.rule for violation in simulate(seed, bug).violations[:1]] == [rule]


def test_each_rule_has_a_planted_bug() -> None:
    assert {rule for _, rule in FOUND.values()} == RULES.keys() - {"W"}


def test_worker_that_ends_with_an_error_breaks_rule_w() -> None:
    class Broken(Exception): ...

    async def broken(*_: object) -> bool:
        raise Broken

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mainspring.worker.rescue.OrphanRescue.sweep", broken)
        verdict = play(plan(Start(at=0.0, host="w1", slots=1, skew=0.0, drift=0.0)))
    assert [violation.rule for violation in verdict.violations] == ["W"]
    assert "Broken" in verdict.violations[0].what


# seeds and plans


def test_draw_is_deterministic() -> None:
    assert (draw(7), str(draw(7))) == (draw(7), str(draw(7)))
    assert draw(7) != draw(8)


def test_story_of_a_seed_does_not_depend_on_the_hash_seed(verdicts: list[Verdict]) -> None:
    """Other leases, or another order of two events at one instant, would change the digest."""
    seeds = SEEDS[:3]
    code = f"from simulation import simulate; print(*(simulate(n).digest for n in {seeds}))"
    environ = {**os.environ, "PYTHONHASHSEED": "4242", "PYTHONPATH": os.pathsep.join(sys.path)}
    other = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60)
    assert other.stdout.split() == [str(verdict.digest) for verdict in verdicts[: len(seeds)]], other.stderr


def test_simulate_restores_the_ids_of_the_process() -> None:
    before = ids._last
    simulate(1)
    assert ids._last == before


def test_plans_have_every_kind_of_move() -> None:
    moves = [move for seed in range(100, 130) for move in draw(seed).moves]
    kinds = {type(move).__name__ for move in moves}
    assert kinds == {
        "Start", "Crash", "Stop", "Freeze", "Cut", "Loss", "Slow", "Enqueue", "Operate", "CrashAtFiring", "Arrange",
        "Create", "Nap", "EnqueueFlow", "OperateFlow", "Signal", "BeginBatch", "AddJob", "EndBatch",
    }  # fmt: skip
    assert {move.options.get("on_conflict") for move in moves if isinstance(move, Enqueue)} == {
        None, "return", "raise", "replace", "debounce",
    }  # fmt: skip


def test_plans_have_durable_tasks_that_are_cancelled_and_put_back_to_work() -> None:
    moves = [move for seed in range(30) for move in draw(seed).moves]
    durable = {move.job for move in moves if isinstance(move, Enqueue) and move.task == "durable"}
    actions = {move.action for move in moves if isinstance(move, Operate) and move.target in durable}
    assert (len(durable) > 3, actions) == (True, {"cancel", "retry"})


def test_steps_of_simulations_are_stored_and_some_begin_again_that_were_not(verdicts: list[Verdict]) -> None:
    facts = [fact for verdict in verdicts for fact in verdict.facts]
    begun = [fact for fact in facts if fact.who == "step"]
    stored = [fact for fact in facts if fact.what.startswith("keeps step") and "sleep" not in fact.what]
    assert len(begun) > len(stored) > 50


@pytest.mark.parametrize("answer", ["given", "SignalTwice", "SignalLate", "JobNotFound"])
def test_signals_of_simulations_get_every_answer(answer: str, verdicts: list[Verdict]) -> None:
    facts = [fact.what for verdict in verdicts for fact in verdict.facts]
    assert any(what.startswith("gives ") and what.endswith(f": {answer}") for what in facts)


@pytest.mark.parametrize("name", ["on_failure", "on_success", "on_complete"])
def test_batches_of_simulations_call_back(name: str, verdicts: list[Verdict]) -> None:
    assert any(fact.who == "batch" and fact.what.startswith(f"calls {name}") for one in verdicts for fact in one.facts)


@pytest.mark.parametrize("what", ["signal approval: given", "signal approval: late", "is cccc", "is duuc"])
def test_flows_of_simulations_wait_for_signals(what: str, verdicts: list[Verdict]) -> None:
    facts = [fact.what for verdict in verdicts for fact in verdict.facts if fact.who == "flow"]
    assert any(one.startswith(what) for one in facts)


def test_plans_have_every_schedule_option_and_operator_action() -> None:
    plans = [draw(seed) for seed in range(100)]
    entries = [entry for plan in plans for release in plan.schedule_plan.releases for entry in release]
    assert {option for entry in entries for option in entry.options} == {
        "overlap", "catch_up", "grace", "catch_up_window", "jitter", "window", "exclude", "max_runs", "run_on_start",
        "after", "pause_after_failures", "depends_on", "end_at",
    }  # fmt: skip
    assert {entry.options.get("overlap") for entry in entries} == {None, *OVERLAPS}
    assert {entry.options.get("catch_up") for entry in entries} == {None, *CATCH_UPS}
    assert {entry.tz for entry in entries} == {"UTC", *(zone for zone, _ in CHANGES)}
    assert {entry.computed for entry in entries} == {True, False}
    done = {move.action for plan in plans for move in plan.moves if isinstance(move, Arrange)}
    assert done == set(ACTIONS)


@pytest.mark.parametrize("what", [
    "is created", "fired", "missed", "skipped", "catch_up", "too_old", "overlap", "dependency", "window", "excluded",
    "paused", "changed", "input: InputError", "by_hand", "backfill", "held for its runs", "held for s",
    "failures in a row", "is deleted", "crashes at a firing, before", "crashes at a firing, unanswered",
    "crashes at a firing, after",
])  # fmt: skip
def test_simulations_record_every_kind_of_schedule_fact(verdicts: list[Verdict], what: str) -> None:
    assert any(what in fact.what for verdict in verdicts for fact in verdict.facts)


@pytest.mark.parametrize("what", [
    "accepts completed", "accepts failed", "accepts timeout", "accepts snoozed", "accepts released", "accepts crashed",
    "accepts cancelled", "claim: pending → expired", "finish: running → dead", "change: dead → pending",
    "gets the reply: duplicate", "gets the reply: replaced", "gets the reply: debounced", "gets the reply: refused",
    "was interrupted",
])  # fmt: skip
def test_simulations_record_every_kind_of_job_fact(verdicts: list[Verdict], what: str) -> None:
    assert any(fact.what.startswith(what) for verdict in verdicts for fact in verdict.facts)


@pytest.mark.parametrize("what", [
    "begun", "cancelled", "retried", "revived step", *(f"ended step 0, index 0, life 0: {state}" for state in
    ("completed", "dead", "cancelled")),
])  # fmt: skip
def test_simulations_record_every_kind_of_flow_event(verdicts: list[Verdict], what: str) -> None:
    assert any(fact.who == "flow" and fact.what.startswith(what) for verdict in verdicts for fact in verdict.facts)


def test_flows_of_simulations_have_every_status(verdicts: list[Verdict]) -> None:
    facts = [fact.what for verdict in verdicts for fact in verdict.facts if fact.who == "flow"]
    rows = [what.removeprefix("is ").partition(",")[0] for what in facts if what.startswith("is ")]
    assert set("".join(rows)) == set("wrcduxfalsn")


def test_report_has_the_plan_the_rule_and_the_story_of_the_job() -> None:
    seed, _ = FOUND["no-limit"]
    verdict = simulate(seed, "no-limit")
    report, job = verdict.report(), verdict.violations[0].job
    assert report.startswith(f"seed {seed}: lease=")
    assert all(str(move) in report for move in draw(seed).moves)
    assert f"I8 is broken ({RULES['I8']})" in report
    assert re.search(rf"the story of {job}:\n.* requests it\n.*enqueue: nothing → pending", report)


def test_shrink_removes_moves_that_the_failure_does_not_need() -> None:
    small = shrink(simulate(FOUND["no-limit"][0], "no-limit"), "no-limit")
    assert [violation.rule for violation in small.violations[:1]] == ["I8"]
    assert [type(move) for move in small.plan.moves] == [Enqueue, Enqueue]


# the command


def test_command_replays_a_seed() -> None:
    seed, rule = FOUND["ignored-key"]
    fine = CliRunner().invoke(main, ["--seed", str(seed)])
    assert (fine.exit_code, f"seed {seed} is fine" in fine.output) == (0, True)
    found = CliRunner().invoke(main, ["--seed", str(seed), "--bug", "ignored-key"])
    assert (found.exit_code, f"seed {seed} breaks {rule}" in found.output) == (0, True)


def test_command_fails_if_a_rule_is_broken_or_a_bug_is_not_found() -> None:
    with BUGS["no-limit"].plant():
        broken = CliRunner().invoke(main, ["--seeds", "2", "--from", "0", "--processes", "1"])
    assert (broken.exit_code, "replay: scripts/sim --seed 0" in broken.output) == (1, True)
    survives = CliRunner().invoke(main, ["--seeds", "1", "--bug", "late-letting-go", "--processes", "1"])
    assert (survives.exit_code, "1 of 1 seeds, 0 failed" in survives.output) == (1, True)


def test_command_runs_seeds_in_several_processes() -> None:
    fine = CliRunner().invoke(main, ["--seeds", "2", "--from", "100", "--processes", "2"])
    assert (fine.exit_code, "2 of 2 seeds, 0 failed" in fine.output) == (0, True)


# parts of the simulation


def plan(*moves: Move, faults_end: float = 30.0, schedules: Sequence[PlannedSchedule] = (), **settings: Any) -> Plan:
    given = {"lease": 4.0, "beat": 1.0, "sweep": 1.0, "poll_interval": 5.0, "max_crashes": 3, "grace": 1.0, **settings}
    schedule_plan = SchedulePlan(releases=(tuple(schedules),))
    return Plan(
        seed=1,
        settings=given,
        clients={"c1": 0.0, "c2": 0.0},
        moves=moves,
        faults_end=faults_end,
        schedule_plan=schedule_plan,
    )


def worker(name: str, at: float = 0.0) -> Start:
    return Start(at=at, host=name, slots=2, skew=0.0, drift=0.0)


SLOW = Enqueue(at=0.5, client="c1", job="j01", task="slow", value=9.0, options={})


def story(verdict: Verdict) -> list[str]:
    return [f"{fact.who} {fact.what.split()[0]}" for fact in verdict.facts if fact.who[0] == "w"]


def test_crash_stores_no_outcome() -> None:
    verdict = play(plan(worker("w1"), SLOW, Crash(at=5.0, host="w1"), worker("w2", at=6.0)))
    assert verdict.fine
    assert story(verdict)[:5] == ["w1 claim:", "w1 starts", "w1 effect", "w2 finish:", "w2 claim:"]


def test_stopped_worker_releases_its_run() -> None:
    verdict = play(plan(worker("w1"), SLOW, Stop(at=5.0, host="w1"), worker("w2", at=6.0)))
    assert verdict.fine
    assert story(verdict)[2:6] == ["w1 effect", "w1 was", "w1 finish:", "w2 claim:"]


# schedules


def of(name: str, verdict: Verdict) -> list[str]:
    """The story of a schedule without the revisions of its row."""
    return [fact.what for fact in verdict.facts if fact.job == name and not fact.what.startswith("revision")]


def test_sleeping_machines_catch_up_missed_ticks() -> None:
    often = PlannedSchedule(name="s1", when="10", options={"catch_up": "latest", "grace": 1.0})
    verdict = play(plan(worker("w1"), Nap(at=5.0, span=3600.0), faults_end=3610.0, schedules=[often]))
    assert verdict.fine, verdict.report()
    assert any(re.match(r"missed .* 3\d\d, catch_up", what) for what in of("s1", verdict))


@pytest.mark.parametrize("point", ["before", "unanswered", "after"])
def test_crash_at_a_firing_loses_and_doubles_no_tick(point: Any) -> None:
    often = PlannedSchedule(name="s1", when="3")
    moves = [worker("w1"), CrashAtFiring(at=4.0, host="w1", point=point), worker("w2", at=8.0)]
    verdict = play(plan(*moves, schedules=[often]))
    assert verdict.fine, verdict.report()
    assert [fact.what for fact in verdict.facts if fact.job == "w1"] == [f"crashes at a firing, {point}"]
    assert sum(what.startswith("fired") for what in of("s1", verdict)) > 10


def test_new_release_redefines_its_schedules() -> None:
    schedule_plan = SchedulePlan(
        releases=((PlannedSchedule(name="s1", when="3"),), (PlannedSchedule(name="s1", when="5"),))
    )
    moves = (worker("w1"), Stop(at=10.0, host="w1"), msgspec.structs.replace(worker("w2", at=12.0), release=1))
    verdict = play(msgspec.structs.replace(plan(*moves), schedule_plan=schedule_plan))
    assert verdict.fine, verdict.report()
    ticks = [fact.at for fact in verdict.facts if fact.job == "s1" and fact.what.startswith("fired")]
    assert {round(later - earlier) for earlier, later in pairwise(ticks[-5:])} == {5}


def test_operators_create_and_change_schedules() -> None:
    entry = PlannedSchedule(name="u1", when="3", options={"overlap": "queue"})
    moves = [
        worker("w1"), Create(at=1.0, entry=entry), Arrange(at=6.0, action="pause", schedule="u1"),
        Arrange(at=12.0, action="resume", schedule="u1", given={"catch_up": False}),
        Arrange(at=20.0, action="delete", schedule="u1"),
    ]  # fmt: skip
    schedule_plan = SchedulePlan(releases=((PlannedSchedule(name="s1", when="60"),),), users=(entry,))
    verdict = play(msgspec.structs.replace(plan(*moves), schedule_plan=schedule_plan))
    assert verdict.fine, verdict.report()
    assert [what.split()[0] for what in of("u1", verdict)] == ["is", "fired", "skipped", *3 * ["fired"], "is"]


def test_omitted_ticks_on_both_sides_of_a_moved_tick_are_recorded_once() -> None:
    window = Window("20:00", "21:00", tz="UTC")  # far from the time of the run
    releases = [(PlannedSchedule(name="s1", when=when, options={"window": window}),) for when in ("3", "5")]
    moves = (
        worker("w1"), Arrange(at=5.0, action="pause", schedule="s1"),
        Arrange(at=6.5, action="reschedule", schedule="s1", given={"seconds": 4.0}),
        Stop(at=12.0, host="w1"), msgspec.structs.replace(worker("w2", at=14.0), release=1),
    )  # fmt: skip
    verdict = play(msgspec.structs.replace(plan(*moves), schedule_plan=SchedulePlan(releases=tuple(releases))))
    assert verdict.fine, verdict.report()
    assert [what.split(", ")[1:] for what in of("s1", verdict)[1:]] == [["2", "window"], ["2", "window"], []]


def test_omitted_ticks_before_a_moved_tick_are_not_recorded_before_it_is_due() -> None:
    entry = PlannedSchedule(name="u1", when="3", options={"window": Window("20:00", "21:00", tz="UTC")})
    moves = (
        worker("w1"), Create(at=1.0, entry=entry),
        Arrange(at=6.5, action="reschedule", schedule="u1", given={"seconds": 15.0}),
        Arrange(at=16.0, action="delete", schedule="u1"),
    )  # fmt: skip
    verdict = play(msgspec.structs.replace(plan(*moves), schedule_plan=SchedulePlan(releases=((),), users=(entry,))))
    assert verdict.fine, verdict.report()


def test_backfilled_tick_is_not_fired_again() -> None:
    often = PlannedSchedule(name="s1", when="3", options={"catch_up": "all", "overlap": "allow", "grace": 0.5})
    moves = [
        worker("w1"), Arrange(at=4.0, action="pause", schedule="s1"),
        Arrange(at=12.0, action="backfill", schedule="s1", given={"seconds": 7.0}),
        Arrange(at=14.0, action="resume", schedule="s1", given={"catch_up": True}),
    ]  # fmt: skip
    verdict = play(plan(*moves, schedules=[often]))
    assert verdict.fine, verdict.report()
    assert [what.split()[2] for what in of("s1", verdict)[2:6]] == [
        "backfill", "backfill", "made_already", "made_already",
    ]  # fmt: skip


def test_due_schedule_that_is_not_fired_breaks_i6() -> None:
    async def asleep(*_: object) -> float:
        return 5.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mainspring.worker.scheduler.Scheduler.run_once", asleep)
        verdict = play(plan(worker("w1"), schedules=[PlannedSchedule(name="s1", when="3")]))
    assert verdict.violations[0].rule == "I6"
    assert re.match(r"was due for \d+\.\d s, and no process fired it", verdict.violations[0].what)


def seen(spec: Spec, start: str, hours: float) -> list[str]:
    begin = datetime.fromisoformat(start)
    return [f"{tick:%H:%M:%S}" for tick in reference_ticks.ticks(spec, begin, begin, begin + timedelta(hours=hours))]


@pytest.mark.parametrize(("expr", "start", "expected"), [
    ("30 1 * * *", "2030-03-31T00:00Z", ["01:00:00"]),  # left out: once, at the first instant after the gap
    ("*/30 * * * *", "2030-03-31T00:00Z", ["00:30:00", "01:00:00", "01:30:00", "02:00:00"]),
    ("30 1 * * *", "2030-10-27T00:00Z", ["00:30:00"]),  # comes twice: the first time
    ("*/30 * * * *", "2030-10-27T00:00Z", ["00:30:00", "01:00:00", "01:30:00", "02:00:00"]),
    ("5,50 59 0 * * *", "2030-10-26T23:00Z", ["23:59:05", "23:59:50"]),
])  # fmt: skip
def test_reference_ticks_follow_the_clocks_of_their_zone(expr: str, start: str, expected: list[str]) -> None:
    assert seen(Spec(trigger=cron(expr, tz="Europe/London"), task="t"), start, 2) == expected


def test_reference_ticks_are_limited_by_windows_dates_and_an_end() -> None:
    window = Window("12:00:25", "12:00:45", tz="UTC")
    start = "2030-01-01T12:00Z"
    spec = Spec(trigger=every(10).seconds, task="t", window=window)
    assert seen(spec, start, 1) == ["12:00:30", "12:00:40"]
    moved = msgspec.structs.replace(spec, window=Window("12:00:25", "12:00:45", tz="UTC", outside="move"))
    assert seen(moved, start, 1) == ["12:00:25", "12:00:30", "12:00:40"]
    ends = datetime.fromisoformat("2030-01-01T12:00:35Z")
    assert seen(msgspec.structs.replace(spec, end_at=ends), start, 1) == ["12:00:30"]
    assert seen(msgspec.structs.replace(spec, exclude=(ends.date(),)), start, 1) == []


def test_watch_counts_from_recovery_until_unhealthy() -> None:
    now = 0.0
    watch = Watch(lambda: now)
    watch.mark_healthy("w1", 5.0, {"s1"})
    now = 12.0
    watch.mark_unhealthy("w1")
    now = 20.0
    assert (watch.longest_healthy(0.0, None), watch.longest_healthy(10.0, "s1"), watch.longest_healthy(0.0, "s2")) == (
        7.0,
        2.0,
        0.0,
    )


class World:
    """One host with a link to a store."""

    def __init__(self, loop: VirtualLoop, **wrong: float) -> None:
        self.clock = TrueClock(loop)
        self.host = Host("h", self.clock, **wrong)
        self.store = AuditedStore(self.clock, Auditor(self.clock))
        self.link = Link(self.host, self.store, Random(1))

    def enqueue(self, id: str = "j") -> Coroutine[Any, Any, Any]:
        new = NewJob(id=id, task="t", payload="{}")
        return self.link.store().enqueue([new], now=self.clock.now())

    def jobs(self) -> list[str]:
        return [job.id for job in self.store.peek()]


def in_a_world(scene: Any, **wrong: float) -> None:
    async def act() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        await scene(World(loop, **wrong))

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(act())


def test_virtual_loop_jumps_to_the_next_timer_and_timeout() -> None:
    async def scene(world: World) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), timeout=86_400)
        assert world.clock.now() == START + timedelta(days=1)

    in_a_world(scene)


def test_virtual_loop_without_timers_is_stuck() -> None:
    async def scene(world: World) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck, match="nothing is due"):
        in_a_world(scene)


def test_virtual_loop_that_spins_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulation.loop.MAX_IDLE_STEPS", 100)

    async def scene(world: World) -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(Stuck, match="without time passing"):
        in_a_world(scene)


def test_host_clock_has_skew_and_drift() -> None:
    async def scene(world: World) -> None:
        await world.host.clock.sleep(1001)
        assert world.clock.monotonic() == pytest.approx(1000)
        ahead = world.host.clock.now() - world.clock.now()
        assert ahead.total_seconds() == pytest.approx(3601, abs=0.001)

    in_a_world(scene, skew=3600.0, drift=0.001)


def test_frozen_host_fires_its_timers_in_order_after_the_thaw() -> None:
    async def scene(world: World) -> None:
        rung: list[tuple[str, float]] = []
        for seconds, name in ((3.0, "b"), (2.0, "a")):
            world.host.clock.call_later(seconds, lambda name=name: rung.append((name, world.clock.monotonic())))
        world.host.freeze()
        call = asyncio.create_task(world.enqueue())
        await world.clock.sleep(10)
        assert (rung, world.jobs()) == ([], [])
        world.host.thaw()
        await call
        assert (rung, world.jobs()) == ([("a", 10.0), ("b", 10.0)], ["j"])

    in_a_world(scene)


def test_request_sent_before_a_crash_arrives() -> None:
    async def scene(world: World) -> None:
        call = asyncio.create_task(world.enqueue())
        await asyncio.sleep(0)
        world.host.crash()
        await world.clock.sleep(10)
        assert (world.jobs(), call.done()) == (["j"], False)
        call.cancel()

    in_a_world(scene)


@pytest.mark.parametrize(("hangs", "takes"), [(False, 0.0), (True, DEADLINE_SECONDS)])
def test_cut_link_delivers_nothing(hangs: bool, takes: float) -> None:
    async def scene(world: World) -> None:
        world.link.cut, world.link.hangs = True, hangs
        with pytest.raises(StoreUnavailable, match="not reached"):
            await world.enqueue()
        assert world.jobs() == []
        assert world.clock.monotonic() == pytest.approx(takes, abs=0.1)

    in_a_world(scene)


def test_lossy_link_fails_before_or_after_the_call() -> None:
    async def scene(world: World) -> None:
        world.link.loss = 1.0
        for n in range(40):
            with pytest.raises(StoreUnavailable):
                await world.enqueue(f"j{n:02}")
        assert 10 < len(world.jobs()) < 30

    in_a_world(scene)


def test_slow_link_delivers_requests_that_were_given_up() -> None:
    async def scene(world: World) -> None:
        world.link.max_delay = 1000.0
        with pytest.raises(StoreUnavailable, match="in time"):
            await world.enqueue()
        assert (world.jobs(), world.clock.monotonic()) == ([], DEADLINE_SECONDS)
        await world.clock.sleep(1000)
        assert world.jobs() == ["j"]

    in_a_world(scene)
