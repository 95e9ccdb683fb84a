"""Counters of a process: their sums never decrease, and labels are bounded."""

import threading

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from mainspring.counters import MAX_LABEL_SETS, OTHER_LABEL, Counters, CounterSnapshot, label_values


def copy(counts: CounterSnapshot) -> CounterSnapshot:
    return msgspec.json.decode(msgspec.json.encode(counts), type=CounterSnapshot)


def test_repeated_takes_of_counters_add_up_to_the_whole() -> None:
    meter, sum_of_parts, whole = Counters(), CounterSnapshot(), Counters()
    for step in range(20):
        for one in (meter, whole):
            one.count("calls", "claim", by=step)
            one.observe("seconds", [step / 3, 0.5], "claim")
        sum_of_parts.add(copy(meter.take()))
    assert sum_of_parts == whole.whole()
    assert not meter.take()


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=40), st.integers(0, 40))
def test_counters_do_not_decrease_when_a_process_ends(events: list[tuple[str, int]], killed_after: int) -> None:
    supervisor, last = Counters(), 0.0
    for n, (label, by) in enumerate(events):
        process = Counters()
        process.count("calls", label, by=by)
        if n != killed_after:
            supervisor.add(copy(process.take()))
        now = sum(supervisor.whole().totals.get("calls", {}).values())
        assert now >= last
        last = now


def test_counter_labels_beyond_the_limit_are_counted_together() -> None:
    meter = Counters()
    for n in range(MAX_LABEL_SETS + 50):
        meter.count("calls", f"v{n}", "e")
        meter.observe("seconds", [1.0], f"q{n}")
    counts = meter.whole()
    assert len(counts.totals["calls"]) == len(counts.spreads["seconds"]) == MAX_LABEL_SETS + 1
    assert sum(counts.totals["calls"].values()) == MAX_LABEL_SETS + 50
    (other,) = (key for key in counts.totals["calls"] if OTHER_LABEL in key)
    assert label_values(other) == [OTHER_LABEL, OTHER_LABEL]
    assert counts.totals["calls"][other] == 50


def test_counters_lose_no_count_of_concurrent_threads() -> None:
    meter = Counters()

    def work() -> None:
        for _ in range(20_000):
            meter.count("calls")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert meter.whole().totals == {"calls": {"": 80_000}}
