import redis as r, pytest
from hypothesis import HealthCheck, settings, Phase
from hypothesis.stateful import run_state_machine_as_test
from mainspring.stores import open_store
from mainspring.testing.twin import twin_machine
C=r.Redis(port=56379)
@pytest.mark.parametrize("n",[40])
def test_twin(n):
    def fresh():
        C.flushall(); return open_store("redis://127.0.0.1:56379/0?prefix=t")
    run_state_machine_as_test(twin_machine(lambda: open_store("memory://"), fresh), settings=settings(max_examples=n, stateful_step_count=30, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]))
