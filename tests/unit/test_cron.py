"""Cron: test vectors of other projects, and the promises of docs/cron.md."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring import BadInput, cron
from mainspring.trigger import Cron, Trigger, cron_plan
from mainspring.trigger.cron_plan import CronPlan, _kind

VECTORS = [
    json.loads(line) for line in (Path(__file__).parent / "data" / "cron_vectors.jsonl").read_text("utf-8").splitlines()
]
# This vector has its seconds in the last field.
NOT_OURS = {"croniter-0238"}
MICROSECOND = timedelta(microseconds=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def ticks(rule: Trigger, after: str, count: int = 1) -> list[str]:
    found, tick = [], at(after)
    for _ in range(count):
        tick = rule.next(tick)
        found.append(tick.isoformat().removesuffix("+00:00"))
    return found


@pytest.mark.parametrize("case", [case for case in VECTORS if case["id"] not in NOT_OURS], ids=lambda case: case["id"])
def test_cron_agrees_with_test_vectors_of_other_projects(case: dict[str, Any]) -> None:
    if case.get("invalid"):
        with pytest.raises(BadInput, match=r"^cron .*: "):
            cron(case["expr"])
        return
    rule = cron(case["expr"], tz=case.get("tz", "UTC"))
    if case.get("valid"):
        return
    tick = at(case["start"]) - (MICROSECOND if case.get("inclusive") else timedelta(0))
    for expected in case.get("expect", ()):
        tick = rule.next(tick)
        assert tick == at(expected)
    for unexpected in case.get("not_expect", ()):
        assert rule.next(tick) != at(unexpected)


def test_the_cron_test_vectors_are_complete() -> None:
    assert len(VECTORS) == 864


# the Cron value


def test_cron_next_returns_utc_for_an_instant_of_any_zone() -> None:
    asked = datetime(2026, 7, 1, 12, tzinfo=timezone(timedelta(hours=-7)))
    tick = cron("0 9 * * *", tz="Europe/London").next(asked)
    assert (tick, tick.tzinfo) == (at("2026-07-02T08:00:00Z"), UTC)


def test_cron_next_is_strictly_later() -> None:
    rule = cron("* * * * * *")
    assert rule.next(at("2026-01-01T00:00:00.999999Z")) == at("2026-01-01T00:00:01Z")
    assert rule.next(at("2026-01-01T00:00:01Z")) == at("2026-01-01T00:00:02Z")


def test_cron_next_refuses_a_naive_datetime() -> None:
    with pytest.raises(BadInput, match=r"2026-01-01 00:00:00 has no time zone: write datetime\(…, tzinfo=UTC\)"):
        cron("* * * * *").next(datetime(2026, 1, 1))


def test_cron_is_encoded_without_its_tables() -> None:
    rule = cron("CRON_TZ=Asia/Tokyo  0  9 * * mon")
    text = msgspec.json.encode(rule)
    assert msgspec.json.decode(text) == {
        "kind": "cron", "tz": "Asia/Tokyo", "expr": "0 9 * * mon", "day_match": "or", "name": "",
    }  # fmt: skip
    assert msgspec.json.decode(text, type=Cron) == rule


def test_a_decoded_cron_expression_is_validated() -> None:
    with pytest.raises(msgspec.ValidationError, match="day of month 31 never comes in month 2"):
        msgspec.json.decode('{"kind": "cron", "expr": "0 0 31 2 *"}', type=Cron)


def test_a_tz_prefix_of_a_cron_expression_sets_the_zone() -> None:
    for prefix in ("CRON_TZ", "TZ"):
        assert cron(f" {prefix}=Asia/Tokyo @daily") == cron("@daily", tz="Asia/Tokyo")
    assert cron("TZ=Asia/Tokyo @daily", tz="Asia/Tokyo").tz == "Asia/Tokyo"


def test_a_tz_prefix_and_another_tz_argument_are_refused() -> None:
    with pytest.raises(BadInput, match=r"names the zone 'Asia/Tokyo', and tz= says 'Europe/London': keep one"):
        cron("TZ=Asia/Tokyo @daily", tz="Europe/London")


@pytest.mark.parametrize(
    ("zone", "near"),
    [
        ("Europe/Londn", "did you mean Europe/London"),
        ("europe/london", "did you mean Europe/London"),
        ("Berlin", "did you mean Europe/Berlin"),
        ("New York", "did you mean America/New_York"),
        ("+02:00", "write one such as"),
        ("../../etc/passwd", "write one such as"),
        ("/etc/passwd", ""),
        ("Europe", ""),
        ("Europe/", ""),
        ("", ""),
        (".", ""),
        ("UTC\0", ""),
        ("localtime", ""),
        ("posix/UTC", ""),
        ("Ünicode/Zone", ""),
        ("A" * 10_000, ""),
        ("a/" * 5000, ""),
    ],
)
def test_cron_refuses_an_unknown_zone_with_a_suggestion(zone: str, near: str) -> None:
    with pytest.raises(BadInput, match="there is no time zone") as refused:
        cron("0 9 * * *", tz=zone)
    assert near in str(refused.value)
    assert len(str(refused.value)) < 200


def test_cron_refuses_values_of_other_types() -> None:
    for odd in (None, 5, b"* * * * *", ["*"]):
        with pytest.raises(BadInput, match="are text"):
            cron(odd)  # type: ignore[arg-type]
        with pytest.raises(BadInput, match="are text"):
            cron("* * * * *", tz=odd)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="day_match is 'or' or 'and', not 'xor'"):
        cron("* * * * *", day_match="xor")  # type: ignore[arg-type]


# syntax


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("@Yearly", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * sun"),
        ("@hourly", "0 * * * *"),
        ("5/20 * * * *", "5,25,45 * * * *"),
        ("0 22-2 * * *", "0 22,23,0,1,2 * * *"),
        ("0 22-3/2 * * *", "0 22,0,2 * * *"),
        ("0 0 * * 5-7", "0 0 * * fri,sat,sun"),
        ("0 0 * * 7/2", "0 0 * * 0,2,4,6"),
        ("0 0 * * fri-mon", "0 0 * * 5,6,0,1"),
        ("0 0 * nov-feb *", "0 0 * 11,12,1,2 *"),
        ("7-7 * * * *", "7 * * * *"),
        ("0 7 * * *", "0 0 7 * * *"),
        ("0 0 ? * MON", "0 0 * * mon"),
    ],
)
def test_equivalent_cron_expressions_have_the_same_ticks(short: str, long: str) -> None:
    start = "2026-01-01T00:00:00Z"
    assert ticks(cron(short), start, 20) == ticks(cron(long), start, 20)


@pytest.mark.parametrize(
    ("expr", "after", "expected"),
    [
        ("0 0 L * *", "2024-02-01T00:00:00Z", ["2024-02-29T00:00:00", "2024-03-31T00:00:00"]),
        ("0 0 L-2 * *", "2026-02-01T00:00:00Z", ["2026-02-26T00:00:00", "2026-03-29T00:00:00"]),
        ("0 0 LW * *", "2026-01-31T00:00:00Z", ["2026-02-27T00:00:00", "2026-03-31T00:00:00"]),
        ("0 0 31W * *", "2026-02-01T00:00:00Z", ["2026-02-27T00:00:00", "2026-03-31T00:00:00"]),
        ("0 0 1W * *", "2026-07-31T00:00:00Z", ["2026-08-03T00:00:00", "2026-09-01T00:00:00"]),
        ("0 0 * * fri#2", "2026-01-01T00:00:00Z", ["2026-01-09T00:00:00", "2026-02-13T00:00:00"]),
        ("0 0 * * 5L", "2026-01-01T00:00:00Z", ["2026-01-30T00:00:00", "2026-02-27T00:00:00"]),
        (
            "0 0 1,15,L * *",
            "2026-02-02T00:00:00Z",
            ["2026-02-15T00:00:00", "2026-02-28T00:00:00", "2026-03-01T00:00:00"],
        ),
        ("0 0 29 2 *", "2096-02-29T00:00:00Z", ["2104-02-29T00:00:00"]),
    ],
)
def test_cron_supports_special_days(expr: str, after: str, expected: list[str]) -> None:
    assert ticks(cron(expr), after, len(expected)) == expected


def test_both_day_fields_match_either_by_default() -> None:
    assert ticks(cron("0 0 13 * fri"), "2026-02-01T00:00:00Z", 3) == [
        f"2026-02-{day:02}T00:00:00" for day in (6, 13, 20)
    ]
    # A step over all days is a restriction, except */1.
    assert ticks(cron("0 0 */30 * fri"), "2026-02-01T00:00:00Z", 2) == ["2026-02-06T00:00:00", "2026-02-13T00:00:00"]
    assert ticks(cron("0 0 */1 * fri"), "2026-02-01T00:00:00Z", 2) == ["2026-02-06T00:00:00", "2026-02-13T00:00:00"]


def test_day_match_and_needs_both_day_fields() -> None:
    both = cron("0 0 13 * fri", day_match="and")
    assert ticks(both, "2026-01-01T00:00:00Z", 3) == [
        "2026-02-13T00:00:00",
        "2026-03-13T00:00:00",
        "2026-11-13T00:00:00",
    ]
    assert ticks(cron("0 0 13 * *", day_match="and"), "2026-01-01T00:00:00Z") == ["2026-01-13T00:00:00"]


# H


def test_h_is_hashed_from_the_name() -> None:
    rule = cron("H H * * *")
    one, same, other = rule.named("report"), rule.named("report"), rule.named("backup")
    assert one == same != other
    assert one.next(at("2026-01-01T00:00:00Z")) != other.next(at("2026-01-01T00:00:00Z"))
    assert rule.next(at("2026-01-01T00:00:00Z")) == rule.named("").next(at("2026-01-01T00:00:00Z"))


def test_a_cron_expression_without_h_does_not_depend_on_the_name() -> None:
    for expr in ("0 9 * * thu", "@hourly", "0 9 * mar *"):
        assert cron(expr).named("report") == cron(expr)


def test_h_spreads_names_over_the_whole_range() -> None:
    starts = {cron("H H * * *").named(f"job-{n}").next(at("2026-01-01T00:00:00Z")) for n in range(1000)}
    assert len(starts) > 600
    days = {cron("0 0 H * *").named(f"job-{n}").next(at("2026-01-31T00:00:00Z")).day for n in range(1000)}
    assert days == set(range(1, 29))


def test_h_of_the_minute_is_the_same_with_another_h_in_the_hour() -> None:
    for name in ("a", "b", "report"):
        hourly, daily = cron("H * * * *").named(name), cron("H H * * *").named(name)
        start = at("2026-01-01T00:00:00Z")
        assert hourly.next(start).minute == daily.next(start).minute


def test_h_keeps_to_its_range_and_its_step() -> None:
    start = at("2026-01-01T00:00:00Z")
    assert all(9 <= cron("0 H(9-17) * * *").named(f"{n}").next(start).hour <= 17 for n in range(50))
    rule = cron("H/15 * * * *").named("report")
    minutes = [at(tick).minute for tick in ticks(rule, "2026-01-01T00:00:00Z", 8)]
    assert minutes == [minutes[0] + 15 * (n % 4) for n in range(8)]
    assert all(cron("0 0 * * H(6-7)").named(f"{n}").next(start).weekday() in (5, 6) for n in range(20))


# refusals


@pytest.mark.parametrize(
    ("expr", "reason"),
    [
        ("61 * * * *", "minute 61 is not within 0-59"),
        ("* * * * 8", "day of week 8 is not within 0-7"),
        ("*/0 * * * *", "minute '*/0': a step is 1 to 60"),
        ("* */25 * * *", "hour '*/25': a step is 1 to 24"),
        ("1,,2 * * * *", "minute: an item of the list is empty"),
        ("* * * foo *", "month 'foo' is not understood; known: jan, feb"),
        ("foo * * * *", "minute 'foo' is not understood; it has no names"),
        ("* * * * L", "day of week 'l' is not understood; write"),
        ("? * * * *", "minute '?' is not understood"),
        ("H(5-1) * * * *", "minute 'h(5-1)': 5 is after 1; write H(1-5)"),
        ("* * L-31 * *", "L-30 is the most"),
        ("* * * *", "4 fields: write 5"),
        ("* * * * * * *", "7 fields"),
        ("0 0 1 1 * 2027", "day of week 2027 is not within 0-7"),
        ("", "0 fields"),
        ("x", "1 field: write"),
        ("@reboot", "'@reboot' names no time; known: @yearly"),
        ("@every 5m", "names no time"),
        ("99999 * * * *", "a number has at most 4 digits"),
        ("x" * 10_000, "10,000 characters are too many: at most 256"),
        (" " * 300, "300 characters are too many"),
        ("9" * 240 + " * * * *", "a number has at most 4 digits"),
        ("1," * 101 + "1 * * * *", "102 items are too many: at most 100"),
        ("١ * * * *", "only ASCII"),
        ("1\u3000* * * *", "only ASCII"),
        ("\u212aan * * * *", "only ASCII"),
        ("* * * * *\0", "is not understood"),
        ("* * * * *;ls", "is not understood"),
        ("(" * 200 + " * * * *", "is not understood"),
        ("1-2-3 * * * *", "is not understood"),
        ("1/2/3 * * * *", "is not understood"),
        ("*5 * * * *", "is not understood"),
        ("__import__('os') * * * *", "is not understood"),
        ("CRON_TZ= * * * * *", "there is no time zone ''"),
    ],
)  # fmt: skip
def test_a_malformed_cron_expression_is_refused_with_the_reason(expr: str, reason: str) -> None:
    with pytest.raises(BadInput) as refused:
        cron(expr)
    assert reason in str(refused.value)
    assert len(str(refused.value)) < 320


@pytest.mark.parametrize(
    ("expr", "day_match", "reason"),
    [
        ("0 0 31 2 *", "or", "day of month 31 never comes in month 2; the last day of any month is L"),
        ("0 0 30 feb *", "or", "day of month 30 never comes in month FEB"),
        ("0 0 31 4,6,9,11 *", "or", "day of month 31 never comes in month 4,6,9,11"),
        ("0 0 L-30 4 *", "or", "day of month L-30 never comes"),
        ("0 0 L-29,L-30 2 *", "or", "day of month L-29,L-30 never comes"),
        ("0 0 L-30W 2,4 *", "or", "never comes"),
        ("0 0 31 2 mon", "and", "no day 31 of month 2 is day of week MON; day_match='or' asks for one"),
        ("0 0 8 * mon#1", "and", "no day 8 of month * is day of week MON#1"),
        ("0 0 LW * sun", "and", "no day LW of month * is day of week SUN"),
        ("0 0 15W * sat,sun", "and", "no day 15W of month * is day of week SAT,SUN"),
        ("0 0 1-21 * friL", "and", "no day 1-21 of month * is day of week FRIL"),
        ("0 0 29 2 mon#4", "and", "no day 29 of month 2"),
    ],
)  # fmt: skip
def test_cron_refuses_a_date_that_never_occurs(expr: str, day_match: Any, reason: str) -> None:
    with pytest.raises(BadInput) as refused:
        cron(expr, day_match=day_match)
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("expr", "day_match"),
    [
        ("0 0 31 2 mon", "or"), ("0 0 31 2,3 *", "or"), ("0 0 29 2 mon", "and"), ("0 0 29 2 mon#5", "and"),
        ("0 0 31W 2 *", "or"), ("0 0 * 2 fri#5", "or"), ("0 0 L-28 2 *", "or"), ("0 0 31 * friL", "and"),
    ],
)  # fmt: skip
def test_cron_accepts_a_date_that_occurs_rarely(expr: str, day_match: Any) -> None:
    assert cron(expr, day_match=day_match).next(at("2026-01-01T00:00:00Z")) is not None


def test_there_are_14_kinds_of_year() -> None:
    for year in range(2000, 2400):
        leap = date(year, 12, 31).timetuple().tm_yday == 366
        assert _kind(year) == 7 * leap + date(year, 1, 1).isoweekday() % 7
    assert {_kind(year) for year in range(2000, 2400)} == set(range(14))


# bounded


def test_cron_finds_the_rarest_date_in_at_most_42_years_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """29 February on a Monday can be forty years away, because 2100 is not a leap year."""
    rule = cron("0 0 29 2 mon", day_match="and", tz="Europe/London")
    looked: list[int] = []
    look = CronPlan._year
    monkeypatch.setattr(CronPlan, "_year", lambda self, kind: looked.append(kind) or look(self, kind))
    assert rule.next(at("2072-03-01T00:00:00Z")) == at("2112-02-29T00:00:00Z")
    assert len(looked) <= 42


def test_cron_checks_at_most_28_kinds_of_month_to_refuse_an_expression(monkeypatch: pytest.MonkeyPatch) -> None:
    """A month has one of seven first weekdays and one of four lengths, whatever the expression is."""
    looked: list[tuple[int, int]] = []
    look = cron_plan._days
    monkeypatch.setattr(cron_plan, "_days", lambda *given: looked.append(given[1:]) or look(*given))
    with pytest.raises(BadInput, match="no day"):
        cron(f"0 0 {','.join(['15W'] * 50)},16W * sun", day_match="and")
    assert len(looked) == 28


def test_a_cron_expression_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = cron("17 4 * * *", tz="Europe/London")
    monkeypatch.setattr(sys.modules["mainspring.trigger.cron"], "parse", None)
    assert len(ticks(rule, "2026-01-01T00:00:00Z", 500)) == 500


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York", "Pacific/Apia", "Europe/London"])
def test_cron_has_no_tick_beyond_the_last_year(zone: str) -> None:
    rule = cron("0 0 1 1 *", tz=zone)
    for last in (datetime.max, datetime.max - timedelta(hours=20)):
        assert rule.next(last.replace(tzinfo=UTC)) is None
        assert rule.next(last.replace(tzinfo=timezone(timedelta(hours=-14)))) is None
        assert rule.next(last.replace(tzinfo=timezone(timedelta(hours=14)))) is None
    for first in (datetime.min, datetime.min + timedelta(hours=20)):
        for hours in (-14, 0, 14):
            tick = rule.next(first.replace(tzinfo=timezone(timedelta(hours=hours))))
            assert tick is not None
            assert tick.year in (1, 2)
    every = cron("* * * * * *", tz=zone)
    assert every.next(datetime.max.replace(tzinfo=UTC)) is None


def test_importing_cron_does_not_load_difflib() -> None:
    code = "import mainspring.trigger, sys; print('difflib' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout.strip() == "False"
