"""Every numbered sentence of the Store protocol is cited by a contract test, and every cited number exists."""

import inspect
import re
from collections import Counter

from mainspring.testing.contract import StoreContract
from mainspring.testing.contract.carry_on import CarryOnContract
from mainspring.testing.contract.checkpoint import CheckpointContract
from mainspring.testing.contract.flow import FlowContract
from mainspring.testing.contract.flow_actions import FlowActionsContract
from mainspring.testing.contract.flow_requests import FlowRequestsContract
from mainspring.testing.contract.limit import LimitContract
from mainspring.testing.contract.limit_rows import LimitRowsContract
from mainspring.testing.contract.signal import SignalContract
from mainspring.testing.contract.unreadable import UnreadableContract
from source_tree import SOURCE

CONTRACTS = "mainspring.testing.contract."
_NUMBER = re.compile(r'^ *(?:""")?([A-Z]{1,2}\d+)\. ', re.MULTILINE)
SUITES = (
    StoreContract,
    CheckpointContract,
    FlowContract,
    FlowActionsContract,
    FlowRequestsContract,
    SignalContract,
    CarryOnContract,
    LimitContract,
    LimitRowsContract,
    UnreadableContract,
)
# Sentences about what a store must not do, or about errors of a server, which no test of the suite can provoke.
ELSEWHERE = {
    "V2": "a verb has no way to call user code",
    "V8": "tests/contract/test_unreadable.py spoils audit entries and leader terms, which only Redis stores as texts",
    "LM11": "only a cluster has queues that it cannot count together",
    "V3": "tests of each store cut its connections: tests/chaos, test_postgres_trouble.py, test_redis_connection.py",
}


def sentences() -> Counter[str]:
    return Counter(n for path in (SOURCE / "store").glob("*.py") for n in _NUMBER.findall(path.read_text()))


def cited() -> dict[str, list[str]]:
    """The tests that cite each number."""
    found: dict[str, list[str]] = {}
    for suite in SUITES:
        for name, test in inspect.getmembers(suite, inspect.isfunction):
            for number in getattr(test, "sentences", ()):
                found.setdefault(number, []).append(name)
    return found


def test_numbers_of_sentences_are_unique_and_without_gaps() -> None:
    numbers = sentences()
    assert len(numbers) > 140
    assert [number for number, times in numbers.items() if times > 1] == []
    letters = Counter(number.rstrip("0123456789") for number in numbers)
    assert [f"{of}{n}" for of, last in letters.items() for n in range(1, last + 1) if f"{of}{n}" not in numbers] == []


def test_every_sentence_of_the_store_is_proved_by_a_contract_test() -> None:
    assert sorted(sentences() - Counter(cited().keys()) - Counter(ELSEWHERE.keys())) == []
    assert [number for number in ELSEWHERE if number not in sentences()] == []


def test_every_cited_sentence_of_the_store_exists() -> None:
    assert {number: tests for number, tests in cited().items() if number not in sentences()} == {}


def test_every_contract_test_cites_a_sentence() -> None:
    suites = [
        *inspect.getmembers(StoreContract),
        *inspect.getmembers(FlowContract),
        *inspect.getmembers(UnreadableContract),
    ]
    assert [name for name, test in suites if name.startswith("test_") and not getattr(test, "sentences", ())] == []


def test_no_method_of_a_contract_hides_one_of_another() -> None:
    """A store's tests inherit from several of them: a helper of the same name would be that of the first."""
    parts = {part for suite in SUITES for part in suite.__mro__ if part.__module__.startswith(CONTRACTS)}
    names = Counter(name for part in parts for name in vars(part) if not name.startswith("__"))
    assert len(names) > 300
    assert [name for name, times in names.items() if times > 1] == []
