"""An agent whose model and tool calls are durable: its worker is killed in the middle, and no answer is paid for twice.

The model is a fake one, which writes down each call. It asks for two tools, and answers when it knows their results.

Prints:
    worker 1: asks the model
    worker 1: reads a page
    worker 1 was killed
    worker 2: looks up a rate
    worker 2: asks the model
    answer: 12 EUR are 13.2 USD
    calls of the model: 2
"""

import asyncio
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from mainspring import Context, Mainspring, Task

Message = dict[str, Any]


def make_app(folder: str, worker: str = "") -> Mainspring:
    # A silent worker's jobs are taken over within lease + sweep; the defaults are 20 s + 5 s.
    app = Mainspring(f"sqlite:///{folder}/jobs.db", beat=0.2, lease=1, sweep=0.2)

    def say(what: str) -> None:
        print(f"worker {worker}: {what}", flush=True)

    def ask_model(messages: list[Message]) -> Message:
        """A call that costs money: it must not be repeated because a worker dies later."""
        say("asks the model")
        with Path(folder, "calls").open("a") as calls:
            calls.write("call\n")
        known = [message["content"] for message in messages if message["role"] == "tool"]
        if known:
            return {"role": "assistant", "content": f"{known[0]:g} EUR are {known[0] * known[1]:g} USD", "tools": []}
        return {"role": "assistant", "content": "", "tools": [["read_page", "shop"], ["look_up_rate", "USD"]]}

    @app.task
    async def read_page(name: str) -> float:
        say("reads a page")
        return 12.0

    @app.task
    async def look_up_rate(currency: str) -> float:
        if worker == "1":
            os.kill(os.getpid(), signal.SIGKILL)  # the machine is gone
        say("looks up a rate")
        return 1.1

    tools: dict[str, Task[[str], float]] = {"read_page": read_page, "look_up_rate": look_up_rate}

    @app.task
    async def agent(ctx: Context, question: str) -> str:
        messages: list[Message] = [{"role": "user", "content": question}]
        while True:
            reply = await ctx.step(ask_model, messages)
            messages.append(reply)
            if not reply["tools"]:
                return str(reply["content"])
            for name, argument in reply["tools"]:
                found = await ctx.run(tools[name], argument)  # a job of its own, with retries of its own
                messages.append({"role": "tool", "content": found})

    return app


async def main(folder: str) -> None:
    app = make_app(folder)
    async with app:
        run = await app.tasks["agent"].enqueue("What does it cost in dollars?")
        first = await asyncio.create_subprocess_exec(sys.executable, __file__, folder, "1")
        await first.wait()
        print("worker 1 was killed", flush=True)
        second = await asyncio.create_subprocess_exec(sys.executable, __file__, folder, "2")
        answer = await run.result(timeout=60)
        second.terminate()
        await second.wait()
        print("answer:", answer)
        print("calls of the model:", calls_of_model(folder))


def calls_of_model(folder: str) -> int:
    return len(Path(folder, "calls").read_text().splitlines())


async def work(folder: str, name: str) -> None:
    await make_app(folder, name).worker().run()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(work(sys.argv[1], sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            asyncio.run(main(temporary))
