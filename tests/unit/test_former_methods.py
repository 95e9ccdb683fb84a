"""Methods that were renamed: the former name works on, with a DeprecationWarning."""

import pytest

from mainspring import Mainspring
from mainspring.store import Store
from mainspring.testing import VirtualClock


@pytest.fixture
def app() -> Mainspring:
    app = Mainspring("memory://", clock=VirtualClock())
    app.task(name="send")(lambda to: to)
    return app


async def test_former_names_of_the_app_work_with_a_warning(app: Mainspring) -> None:
    wrapped: list[Store] = []
    with pytest.deprecated_call(match=r"Mainspring.through\(\) is wrap_store\(\) now"):
        app.through(lambda store: wrapped.append(store) or store)  # type: ignore[func-returns-value]
    with pytest.deprecated_call(match=r"Mainspring.unmigrated\(\) is connect_unmigrated\(\) now"):
        async with app.unmigrated() as store:
            assert [store] == wrapped
    with pytest.deprecated_call(match=r"Mainspring.opened\(\) is connect\(\) now"):
        assert await app.opened() is await app.connect()
    with pytest.deprecated_call(match=r"Mainspring.hand_over\(\) is insert\(\) now"):
        (handle,) = await app.hand_over([app.job("send", {"to": "ada"})])
    assert (await handle.job()).task == "send"
    await app.close()


async def test_the_former_name_of_a_leaders_method_works_with_a_warning(app: Mainspring) -> None:
    leader = app.leader("reindex")
    with pytest.deprecated_call(match=r"Leader.through\(\) is wrap_store\(\) now"):
        leader.through(lambda store: store)
    await leader.acquire(0)
    await leader.release()
    await app.close()
