"""Handles that many tests of a class use one after the other: to open one costs more than most tests do."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import ClassVar

import pytest

from mainspring.store import Store
from mainspring.testing.contract.build import Contract


class Kept(Contract):
    """The tests share an event loop too; see conftest.py."""

    runner: ClassVar[asyncio.Runner]
    idle: ClassVar[list[Store]]

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _kept(cls) -> Iterator[None]:
        cls.idle = []
        with asyncio.Runner() as cls.runner:
            yield
            for store in cls.idle:
                cls.runner.run(store.close())

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        store = self.idle.pop() if self.idle else self.make_store()
        await store.open()
        try:
            yield store
        except BaseException:
            await store.close()
            raise
        self.idle.append(store)
