"""A nightly import as a flow: one job for each file, some of which may be bad, and a report that reads all results.

Prints:
    300 files: 297 imported, 44550 rows, bad ones: 99, 199, 299
    items of the map: 300 made, 300 ended, 3 dead
    a bad night: dead step: load (30 of 300 items, first item 9: ValueError: file 9 has no end, job …)
"""

import asyncio
import logging

from mainspring import Mainspring, Results

logging.getLogger("mainspring").setLevel(logging.CRITICAL)
app = Mainspring("memory://")


@app.task
async def find_files(night: str) -> list[int]:
    """Large data stays where it is: a step passes names."""
    return list(range(300))


@app.task(max_retries=0)
async def load(file: int, bad: int) -> int:
    if file % bad == bad - 1:
        raise ValueError(f"file {file} has no end")
    return 150  # rows


@app.task
async def report(loaded: Results[int]) -> str:
    """Results are read in pages, so that a map may have any number of items. `list[int]` would be loaded whole."""
    rows = [count async for count in loaded]
    bad = [str(index) async for index, failure in loaded.failures()]
    return f"{len(rows) + len(bad)} files: {len(rows)} imported, {sum(rows)} rows, bad ones: {', '.join(bad)}"


@app.cron("0 2 * * *", tz="Europe/London", overlap="skip", kwargs={"night": "today"})
@app.flow
def nightly_import(night: str, bad: int = 100) -> str:
    loaded = load.using(failed_ratio=0.05).map(find_files.step(night), bad)
    return report.step(loaded)


async def main() -> None:
    async with app:
        good = await nightly_import.enqueue("2030-01-01")
        wrong = await nightly_import.enqueue("2030-01-02", bad=10)
        await app.drain()
        print(await good.result())
        items = (await app.flows.get(good.id)).step("load").items
        assert items is not None
        print(f"items of the map: {items.made} made, {items.ended} ended, {items.dead} dead")
        failure = (await wrong.job()).failure
        assert failure is not None
        print("a bad night:", failure.message)


if __name__ == "__main__":
    asyncio.run(main())
