"""One of many does the work: a leader is elected, and when it goes the next one takes over.

Prints:
    ada leads in term 1
    bob waits
    bob leads in term 2
    refused: ada does not lead any more
"""

import asyncio

from mainspring import Mainspring, NotLeader

app = Mainspring("memory://")


class Follower:
    """In production each of them is a process of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.leader = app.leader("feed", ttl=5)
        self.leads = asyncio.Event()

    async def run(self) -> None:
        await self.leader.run(self.follow)

    async def follow(self) -> None:
        """In production a loop, which calls check() before each thing that matters."""
        print(f"{self.name} leads in term {self.leader.check()}")
        self.leads.set()
        await asyncio.Event().wait()


async def main() -> None:
    async with app:
        ada, bob = Follower("ada"), Follower("bob")
        first = asyncio.create_task(ada.run())
        await ada.leads.wait()
        second = asyncio.create_task(bob.run())
        await asyncio.sleep(0.1)
        print("bob leads" if bob.leader.is_leader else "bob waits")

        first.cancel()  # as when its process is stopped; had it been killed, bob would lead within 5 s
        await bob.leads.wait()
        try:
            ada.leader.check()
        except NotLeader:
            print("refused: ada does not lead any more")
        second.cancel()
        await asyncio.wait([first, second])


if __name__ == "__main__":
    asyncio.run(main())
