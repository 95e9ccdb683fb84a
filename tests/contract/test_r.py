import redis as r, pytest
from contextlib import asynccontextmanager
from mainspring.stores import open_store
from mainspring.testing.contract import StoreContract
from books import audit
C=r.Redis(port=56379)
class TestRedis(StoreContract):
    @pytest.fixture(autouse=True)
    def _f(self): C.flushall()
    def make_store(self): return open_store("redis://127.0.0.1:56379/0?prefix=t")
    @asynccontextmanager
    async def opened(self):
        store = self.make_store()
        await store.open()
        try:
            yield store
            if store._pool is not None: await audit(store._pool)
        finally:
            await store.close()
