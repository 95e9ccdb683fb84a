"""Job ids: UUIDv7, strictly increasing within a process, whatever the clock does."""

import os
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import ids
from mainspring.ids import new_id, new_id_series, nth_id

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resets the last id, so that an id contains its own instant."""
    monkeypatch.setattr(ids, "_last", 0)


def milliseconds(id: str) -> int:
    return UUID(id).int >> 80


def test_an_id_is_a_uuid_of_version_7() -> None:
    id = new_id(NOW)
    assert str(UUID(id)) == id
    assert (UUID(id).version, UUID(id).variant) == (7, RFC_4122)


@given(st.datetimes(datetime(1970, 1, 2), datetime(9999, 1, 1), timezones=st.just(UTC)))
def test_an_id_is_a_uuid_of_version_7_at_any_time(now: datetime) -> None:
    assert (UUID(new_id(now)).version, UUID(new_id(now)).variant) == (7, RFC_4122)


def test_an_id_contains_its_millisecond() -> None:
    assert milliseconds(new_id(NOW)) == NOW.timestamp() * 1000


def test_ids_sort_by_time() -> None:
    minted = [new_id(NOW + timedelta(milliseconds=n)) for n in range(1000)]
    assert minted == sorted(minted)


def test_ids_increase_while_the_clock_stands_still() -> None:
    minted = [new_id(NOW) for _ in range(10_000)]  # more than the 4096 that fit into one millisecond
    assert minted == sorted(set(minted))


def test_ids_increase_when_the_clock_goes_back() -> None:
    minted = [new_id(NOW - timedelta(hours=n)) for n in range(1000)]
    assert minted == sorted(set(minted))


def test_ids_follow_the_clock_again_when_it_has_caught_up() -> None:
    new_id(NOW)
    new_id(NOW - timedelta(hours=1))
    assert milliseconds(new_id(NOW + timedelta(seconds=1))) == NOW.timestamp() * 1000 + 1000


def test_many_ids_of_the_same_instant_are_unique() -> None:
    assert len({new_id(NOW) for _ in range(50_000)}) == 50_000


def test_two_processes_create_different_ids_at_the_same_instant() -> None:
    code = "import datetime, mainspring.ids as ids; print(ids.new_id(datetime.datetime(2030, 1, 1)))"
    one, other = (subprocess.check_output([sys.executable, "-c", code], text=True, timeout=30) for _ in range(2))
    assert one[:18] == other[:18]
    assert one[19:] != other[19:]


def test_threads_never_create_the_same_id() -> None:
    minted: list[list[str]] = [[] for _ in range(4)]
    start = threading.Barrier(4)

    def mint(mine: list[str]) -> None:
        start.wait()
        mine.extend(new_id(NOW) for _ in range(2000))

    threads = [threading.Thread(target=mint, args=(mine,)) for mine in minted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set().union(*minted)) == 8000
    assert all(mine == sorted(mine) for mine in minted)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_repeat_its_parents_ids() -> None:
    """Both continue from the same counter: only the random tail differs."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, new_id(NOW).encode())
        os._exit(0)
    mine = new_id(NOW)
    os.waitpid(child, 0)
    theirs = os.read(read, 100).decode()
    os.close(read)
    os.close(write)
    assert mine[:18] == theirs[:18]
    assert mine != theirs


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_while_the_id_lock_is_held_can_create_ids() -> None:
    with ids._lock:  # held as by another thread of the parent, which the child does not have
        child = os.fork()
        if child == 0:
            signal.setitimer(signal.ITIMER_REAL, 2)  # ends it if it waits for ever
            new_id(NOW)
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="is such a system")
def test_ids_module_can_be_imported_without_fork() -> None:
    code = "import asyncio, logging, os, random; del os.fork, os.register_at_fork; import mainspring.ids"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert ended.returncode == 0, ended.stderr[-500:]


def test_an_id_series_increases_from_its_first_id() -> None:
    first = new_id_series(NOW)
    assert nth_id(first, 0) == first
    series = [nth_id(first, n) for n in range(5000)]
    assert series == sorted(set(series))
    assert all(UUID(id).version == 7 for id in series)


def test_two_id_series_of_the_same_instant_share_no_id() -> None:
    one, two = new_id_series(NOW), new_id_series(NOW)
    assert not {nth_id(one, n) for n in range(100)} & {nth_id(two, n) for n in range(100)}
