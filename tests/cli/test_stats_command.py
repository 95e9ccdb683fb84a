"""mainspring stats."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from mainspring.cli.sparkline import bars_of, squeezed
from mainspring.cli.stats_page import percent, state_line, summary, throughput
from mainspring.insight.stats import Figures, Point, Stats


@pytest.fixture
def busy(enqueued, work):
    for n in range(3):
        enqueued("add", f"a={n}")
    enqueued("fail", "why=no customer 17")
    enqueued("add", "a=1", "--delay", "1h")
    work()


def test_stats_counts_states_and_runs_by_task(cli, shop, busy):
    done = cli("stats", "--app", shop)
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "○ 0 pending  ◔ 1 scheduled  ► 0 running  ✓ 3 completed  ✗ 1 dead"
    assert lines[2].startswith("last 1h  4 runs  75.0 % ok  p50 ")
    # A minute may have begun between two runs, or since.
    assert re.fullmatch(r"✓ +[▁-█]+ +max \d in 1m", lines[3])
    assert re.fullmatch(r"✗ +█ +max 1 in 1m", lines[4])
    assert lines[6].split() == ["TASK", "RUNS", "OK", "FAILED", "AVG", "P50", "P95", "P99", "WAIT50", "WAIT95", "LAST"]
    assert [line.split()[:2] for line in lines[7:10]] == [["add", "3"], ["fail", "1"], ["all", "4"]]
    assert lines[7].split()[2:5] == ["100", "%", "0"]
    assert all(re.search(r"( +\d+(\.\d)?m?s){6} ", line) for line in lines[7:10])
    assert lines[8].split()[2:5] == ["0.0", "%", "1"]
    assert lines[12].split() == ["1", "ValueError:", "no", "customer", "…", "fail"]


def test_stats_of_one_queue_or_task(cli, shop, busy):
    found = {}
    for asked in (["--queue", "mail"], ["--task", "fail"], ["--queue", "mail", "--task", "fail"]):
        document = json.loads(cli("stats", "--app", shop, "--json", *asked).stdout)
        found[" ".join(asked)] = (document["total"]["runs"], sorted(document["by_task"]), document["completed"])
    assert found == {
        "--queue mail": (3, ["add"], 3), "--task fail": (1, ["fail"], 3), "--queue mail --task fail": (0, [], 3),
    }  # fmt: skip


def test_narrow_summary_leaves_out_waits_first():
    figures = Figures(runs=4, success_rate=0.75, p50=0.005, p95=0.027, p99=0.027, wait_p50=1.5, wait_p95=3.25)
    wide, mid, narrow = (summary(figures, "last hour", "1h", width).plain for width in (90, 70, 50))
    assert wide == "last hour  4 runs  75.0 % ok  p50 5ms  p95 27ms  p99 27ms  wait p50 1.5s  p95 3.2s"
    assert mid == "last hour  4 runs  75.0 % ok  p50 5ms  p95 27ms  p99 27ms"
    assert narrow == "1h 4 runs 75.0 % ok p50 5ms p95 27ms p99 27ms"


def test_stats_by_queue(cli, shop, busy):
    lines = cli("stats", "--app", shop, "--by", "queue").stdout.splitlines()
    assert lines[6].startswith("QUEUE ")
    assert {line.split()[0] for line in lines[7:10]} == {"mail", "default", "all"}


@pytest.mark.parametrize(("window", "unit"), [("24h", "in 1h"), ("7d", "in 1d"), ("90m", "in 2m")])
def test_stats_bars_of_a_longer_window_cover_longer_spans(cli, shop, busy, window, unit):
    lines = cli("stats", "--app", shop, "--window", window).stdout.splitlines()
    assert lines[2].startswith(f"last {window}  4 runs")
    assert re.fullmatch(rf"✓ +[▁-█]+ +max \d {unit}", lines[3])
    assert all(len(line) <= 80 for line in lines)


def test_stats_ever_has_no_series(cli, shop, busy):
    lines = cli("stats", "--app", shop, "--window", "ever").stdout.splitlines()
    assert lines[2].startswith("ever  4 runs")
    assert lines[4].startswith("TASK ")


@pytest.mark.parametrize(
    ("window", "hint"),
    [
        ("1h", "no run has ended in the last 1h; --window 7d looks further back\n"),
        ("7d", "no run has ended in the last 7d; --window ever looks further back\n"),
        ("ever", "no run has ended yet\n"),
    ],
)
def test_stats_without_runs_has_a_hint(cli, shop, enqueued, window, hint):
    enqueued("add", "a=1")
    done = cli("stats", "--app", shop, "--window", window)
    assert done.exit_code == 0
    assert done.stdout == "○ 1 pending  ► 0 running  ✓ 0 completed  ✗ 0 dead\n"
    assert done.stderr == hint


def test_stats_json(cli, shop, busy):
    document = json.loads(cli("stats", "--app", shop, "--json").stdout)
    assert (document["store"], document["window"]) == ("sqlite:///jobs.db", 3600)
    assert (document["scheduled"], document["completed"], document["dead"]) == (1, 3, 1)
    assert document["total"]["runs"] == 4
    assert document["by_task"]["add"]["success_rate"] == 1
    assert document["by_queue"]["default"]["failed"] == 1
    assert len(document["series"]) == 61
    (error,) = document["errors"]
    assert error == {
        "error": "ValueError: no customer …",
        "count": 1,
        "tasks": ["fail"],
        "message": "ValueError: no customer 17",
    }
    assert json.loads(cli("stats", "--app", shop, "--json", "--window", "ever").stdout)["window"] is None


@pytest.mark.parametrize(("window", "why"), [("367d", "reach back 366 days, or"), ("soon", "a span such as")])
def test_invalid_window_is_a_usage_error(cli, shop, window, why):
    refused = cli("stats", "--app", shop, "--window", window)
    assert refused.exit_code == 2
    assert why in " ".join(refused.stderr.split())


def test_state_line_fits_the_width():
    stats = Stats(pending=1234, scheduled=40, retrying=5, running=7, completed=303_000, dead=12)
    assert state_line(stats, 200).plain.count("  ") == 9
    assert state_line(stats, 95).plain.startswith("○ 1,234 pending  ◔ 40 scheduled  ↻ 5 retrying  ► 7 running  ✓")
    assert state_line(stats, 70).plain.startswith("○ 1,234 pend ◔ 40 sched ↻ 5 retry")
    assert state_line(stats, 50).plain == "○ 1,234  ◔ 40  ↻ 5  ► 7  ✓ 303,000  ✗ 12"


@pytest.mark.parametrize(
    ("share", "text"), [(None, "–"), (1.0, "100 %"), (0.99999, "99.9 %"), (0.5, "50.0 %"), (0.0, "0.0 %")]
)
def test_percent_is_100_only_if_exact(share, text):
    assert percent(share) == text


def test_bars_fill_their_rows_in_proportion():
    assert bars_of([0, 8, 16]) == ["  █", " ██"]
    assert bars_of([1, 2], height=1) == ["▄█"]
    assert bars_of([0, 0]) == ["  ", "  "]
    assert bars_of([]) == ["", ""]


def test_bar_of_a_small_value_is_visible():
    assert bars_of([1, 100_000], height=1) == ["▁█"]


def test_squeezed_keeps_the_sum():
    assert squeezed([1, 2, 3], 5) == [1, 2, 3]
    assert squeezed([1, 2, 3, 4, 5], 3) == [1, 5, 9]
    assert squeezed(range(1441), 61)[-1] == sum(range(1441)[-24:])
    assert sum(squeezed(range(1441), 61)) == sum(range(1441))
    assert squeezed([], 3) == []


def test_narrow_throughput_shows_the_newest_points():
    start = datetime(2030, 1, 1, tzinfo=UTC)
    series = [Point(start + timedelta(minutes=n), n, 0) for n in range(61)]
    completed, failed = throughput(series, 40, newest=True)
    assert completed.plain.endswith("█ max 60 in 1m")
    assert completed.cell_len <= 40
    assert failed.plain.endswith(" none")
