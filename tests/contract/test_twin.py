"""Memory is the executable specification: every other store gives the same answers."""

from itertools import count
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.testing.twin import twin_machine
from servers import Postgres

BOUNDED = settings(
    max_examples=100,
    stateful_step_count=30,
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_sqlite_answers_as_memory_does(tmp_path: Path) -> None:
    numbers = count()

    def fresh() -> Store:
        return open_store(f"sqlite:///{tmp_path}/{next(numbers)}.db", durability="relaxed")

    run_state_machine_as_test(twin_machine(lambda: open_store("memory://"), fresh), settings=BOUNDED)


def test_postgres_answers_as_memory_does(postgres: Postgres) -> None:
    def fresh() -> Store:
        return open_store(postgres.fresh())

    fewer = settings(BOUNDED, max_examples=60)
    run_state_machine_as_test(twin_machine(lambda: open_store("memory://"), fresh), settings=fewer)
