"""Memory is the executable specification: every other store gives the same answers."""

from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from clusters import RedisCluster
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.testing.twin import twin_machine
from mainspring.testing.twin_limits import LIMIT_KEYS
from servers import Postgres, Redis

BOUNDED = settings(
    stateful_step_count=30,
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("examples", [30, pytest.param(600, marks=pytest.mark.slow)])
def test_sqlite_answers_as_memory_does(tmp_path: Path, examples: int) -> None:
    numbers = count()

    def fresh() -> Store:
        return open_store(f"sqlite:///{tmp_path}/{next(numbers)}.db", durability="relaxed")

    so_many = settings(BOUNDED, max_examples=examples)
    run_state_machine_as_test(twin_machine(lambda: open_store("memory://"), fresh), settings=so_many)


@pytest.mark.parametrize("examples", [20, pytest.param(600, marks=pytest.mark.slow)])
def test_sqlite_answers_as_memory_does_with_limits(tmp_path: Path, examples: int) -> None:
    numbers = count()

    def fresh() -> Store:
        return open_store(f"sqlite:///{tmp_path}/{next(numbers)}.db", durability="relaxed")

    machine = twin_machine(lambda: open_store("memory://"), fresh, limit_keys=LIMIT_KEYS)
    run_state_machine_as_test(machine, settings=settings(BOUNDED, max_examples=examples))


@pytest.mark.parametrize("examples", [15, pytest.param(300, marks=pytest.mark.slow)])
def test_postgres_answers_as_memory_does(postgres: Postgres, examples: int) -> None:
    def fresh() -> Store:
        return open_store(postgres.fresh())

    so_many = settings(BOUNDED, max_examples=examples)
    run_state_machine_as_test(twin_machine(lambda: open_store("memory://"), fresh), settings=so_many)


@pytest.mark.parametrize("examples", [10, pytest.param(300, marks=pytest.mark.slow)])
def test_postgres_answers_as_memory_does_with_limits(postgres: Postgres, examples: int) -> None:
    def fresh() -> Store:
        return open_store(postgres.fresh())

    machine = twin_machine(lambda: open_store("memory://"), fresh, limit_keys=LIMIT_KEYS)
    run_state_machine_as_test(machine, settings=settings(BOUNDED, max_examples=examples))


@pytest.mark.parametrize("examples", [30, pytest.param(300, marks=pytest.mark.slow)])
def test_redis_answers_as_memory_does(redis: Redis, examples: int) -> None:
    def fresh() -> Store:
        return open_store(redis.fresh())

    so_many = settings(BOUNDED, max_examples=examples)
    run_state_machine_as_test(twin_machine(lambda: open_store("memory://"), fresh), settings=so_many)


@pytest.mark.parametrize("examples", [15, pytest.param(300, marks=pytest.mark.slow)])
def test_a_redis_cluster_answers_as_memory_does(redis_cluster: RedisCluster, examples: int) -> None:
    def fresh() -> Store:
        return open_store(redis_cluster.fresh())

    so_many = settings(BOUNDED, max_examples=examples)
    run_state_machine_as_test(twin_machine(lambda: open_store("memory://"), fresh), settings=so_many)


def test_redis_answers_as_memory_does_with_limits(redis: Redis) -> None:
    machine = twin_machine(lambda: open_store("memory://"), lambda: open_store(redis.fresh()), limit_keys=LIMIT_KEYS)
    run_state_machine_as_test(machine, settings=settings(BOUNDED, max_examples=20))
