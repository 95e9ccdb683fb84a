"""A process that enqueues one job with a key, in its own time; prints what it got."""

import asyncio
import sys

from mainspring.stores import open_store
from mainspring.testing.contract.build import NOW, new_job


async def main(url: str, key: str) -> None:
    store = open_store(url)
    await store.open()
    (answer,) = await store.enqueue([new_job(unique_key=key)], now=NOW)
    print(answer.id)
    await store.close()


asyncio.run(main(*sys.argv[1:]))
