"""A task's effect and the completion of its job in one transaction: the effect happens once, also if a run fails.

Prints:
    attempt 1: ada has 50, and the power fails
    attempt 2: ada has 50
    in the end: ada has 50, the job is completed with 50
"""

import asyncio
import sqlite3
import tempfile
from pathlib import Path

from mainspring import Context, Mainspring, Retry


async def main(file: Path) -> None:
    app = Mainspring(f"sqlite:///{file}")

    @app.task
    async def withdraw(ctx: Context, owner: str, amount: int) -> None:
        async with ctx.transaction() as db:  # on PostgreSQL: an asyncpg connection, and each call is awaited
            db.execute("UPDATE accounts SET balance = balance - ? WHERE owner = ?", (amount, owner))
            balance = db.execute("SELECT balance FROM accounts WHERE owner = ?", (owner,)).fetchone()[0]
            if ctx.attempt == 1:
                print(f"attempt 1: {owner} has {balance}, and the power fails")
                raise Retry(after=0)  # rolls the withdrawal back
            print(f"attempt 2: {owner} has {balance}")
            ctx.complete(balance)
        # Here the money is gone and the job is completed, or neither.

    async with app:
        mine = sqlite3.connect(file)
        mine.execute("CREATE TABLE accounts (owner TEXT, balance INTEGER)")
        mine.execute("INSERT INTO accounts VALUES ('ada', 100)")
        mine.commit()

        job = await withdraw.enqueue("ada", 50)
        await app.drain()
        balance = mine.execute("SELECT balance FROM accounts").fetchone()[0]
        done = await job.job()
        print(f"in the end: ada has {balance}, the job is {done.state} with {done.result}")
        mine.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder, "bank.db")))
