"""diagnose() of a SQLite store: its release, modes and sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring.records.finding import Finding, format_size, worst_verdict
from mainspring.stores import open_store
from mainspring.stores.sqlite.doctor import journal, log, release, space, synchronous


@pytest.mark.parametrize("version", [(3, 7, 0), (3, 40, 1), (3, 44, 5), (3, 45, 0), (3, 50, 6), (3, 51, 2)])
def test_diagnose_warns_of_a_sqlite_release_with_the_wal_reset_bug(version):
    found = release(version)
    assert found.verdict == "warn"
    assert "WAL-reset bug" in found.text
    assert "3.51.3" in found.remedy


@pytest.mark.parametrize("version", [(3, 6, 23), (3, 44, 6), (3, 50, 7), (3, 50, 8), (3, 51, 3), (3, 52, 0), (4, 0, 0)])
def test_diagnose_accepts_a_sqlite_release_without_the_wal_reset_bug(version):
    assert release(version) == Finding("SQLite", "ok", ".".join(map(str, version)))


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (journal("wal"), "ok"),
        (journal("delete"), "bad"),
        (synchronous(2), "ok"),
        (synchronous(1), "warn"),
        (log(32 << 20), "ok"),
        (log(256 << 20), "warn"),
        (space(1 << 30), "ok"),
        (space((1 << 30) - 1), "warn"),
        (space(99 << 20), "bad"),
    ],
)
def test_diagnose_verdicts_depend_on_journal_mode_synchronous_log_size_and_free_space(found, verdict):
    assert found.verdict == verdict
    assert bool(found.remedy) == (verdict != "ok")


@pytest.mark.parametrize(("durability", "level"), [("full", "FULL"), ("relaxed", "NORMAL")])
async def test_diagnose_reports_modes_and_sizes_of_a_sqlite_file(tmp_path: Path, durability, level):
    store = open_store(f"sqlite:///{tmp_path}/jobs.db", durability=durability)
    await store.open()
    found = {finding.about: finding for finding in await store.diagnose()}
    await store.close()
    assert list(found) == ["SQLite", "journal mode", "synchronous", "file", "log", "disk", "records"]
    assert found["journal mode"].text == "wal"
    assert found["synchronous"].text.startswith(level)
    assert found["file"].text.endswith(" KB")
    assert found["disk"].text.endswith(" free")


async def test_diagnose_reports_the_size_of_the_wal_file(tmp_path: Path):
    store = open_store(f"sqlite:///{tmp_path}/jobs.db")
    await store.open()
    await store.pause_queue("mail", True)
    found = {finding.about: finding for finding in await store.diagnose()}
    length = (tmp_path / "jobs.db-wal").stat().st_size
    await store.close()
    assert length > 0
    assert found["log"].text == format_size(length)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (4096, "4.0 KB"), (120 << 10, "120 KB"), (1 << 20, "1.0 MB"), (78 << 30, "78 GB"),
     (5 << 50, "5120 TB")],
)  # fmt: skip
def test_format_size_is_short(count, text):
    assert format_size(count) == text


def test_worst_verdict_of_no_findings_is_ok():
    assert worst_verdict([]) == "ok"
    assert worst_verdict([Finding("a", "warn", ""), Finding("b", "bad", ""), Finding("c", "ok", "")]) == "bad"
