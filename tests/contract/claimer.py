"""A process that claims and finishes until nothing is due; prints the jobs it has claimed."""

import asyncio
import os
import sys

from mainspring.records.outcome import Done, decide
from mainspring.stores import open_store
from mainspring.testing.contract.build import NOW, beat, claim


async def main(url: str) -> None:
    store, name = open_store(url), f"claimer-{os.getpid()}"
    await store.open()
    await beat(store, name)
    while jobs := (await claim(store, name, limit=7)).jobs:
        print(*(job.id for job in jobs), sep="\n")
        assert len(await store.finish([decide(job, Done(), now=NOW) for job in jobs])) == len(jobs)
    await store.close()


asyncio.run(main(sys.argv[1]))
