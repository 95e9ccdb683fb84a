"""The tasks that the tests run."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any, Literal

from msgspec import Struct

from mainspring import Context, Mainspring, signal

PLANS = ("free", "team", "enterprise")


class Approval(Struct):
    ok: bool
    level: Literal["low", "high"] = "low"
    amount: int = 0
    by: str = ""


class Cues(defaultdict[str, "asyncio.Queue[Any]"]):
    """The next steps of guided jobs, by name."""

    def __init__(self) -> None:
        super().__init__(asyncio.Queue)


def stories(app: Mainspring, cues: Cues) -> Mainspring:
    """The same app with these tasks registered."""

    @app.task(queue="mail")
    async def send_email(to: str, subject: str = "") -> str:
        """Completes at once."""
        return f"sent to {to}"

    @app.task(queue="exports")
    async def export(ctx: Context, name: str) -> Any:
        """Follows its cues, step by step."""
        while True:
            match await cues[name].get():
                case ("progress", *given):
                    ctx.progress(*given)
                case ("write", *chunks):
                    for chunk in chunks:
                        await ctx.write(chunk)
                case ("log", line):
                    ctx.log.info("%s", line)
                case ("fail", reason):
                    raise RuntimeError(reason)
                case ("end", value):
                    return value

    @app.task(queue="any", max_retries=0)
    async def apply(ctx: Context, name: str) -> Any:
        """Its steps follow their cues; it waits for a signal, and then for longer than a test takes."""
        for n in range(2):
            await ctx.step(cues[name].get, name=f"step {n}")
        answer = await ctx.signal("answer", timeout="3d", default="none")
        await ctx.sleep(answer["days"] * 86_400)

    @app.task(queue="billing", max_retries=0)
    async def charge(customer: int, plan: str) -> dict[str, Any]:
        """Fails unless its plan is known."""
        return {"customer": customer, "paid": _price(plan)}

    @app.task(queue="crm", max_retries=0)
    async def sync_crm(depth: int = 30) -> None:
        """Fails deep in the call stack."""
        _fall(depth)

    @app.task(queue="crm", max_retries=0)
    async def sign_in(user: str, password: str, url: str = "") -> str:
        """Fails for all but one user."""
        if user != "ada":
            raise PermissionError(f"{user} may not sign in")
        return user

    @app.task(queue="any")
    async def echo(value: Any) -> Any:
        """Returns its argument."""
        return value

    @app.task(queue="hostile", max_retries=0)
    async def repeat(ctx: Context, words: list[str], fail: bool = False) -> Any:
        """Repeats its words in every output of a task: log lines, progress, result or error."""
        for n, word in enumerate(words):
            ctx.log.warning("%s", word)
            await ctx.write(word)
            ctx.progress(10 * n, 10 * len(words), word)
        ctx.note(**{"said": words, words[0]: words[-1]})
        if fail:
            raise type(words[0].replace("\n", ""), (Exception,), {})(" ".join(words))
        return dict.fromkeys(words, words)

    @app.task(queue="any", max_retries=0)
    async def unpack(box: int) -> int:
        """Fails for each box that ends in 7."""
        if box % 10 == 7:
            raise ValueError(f"box {box} is empty")
        return box

    @app.flow(queue="flows")
    def deliver(name: str) -> str:
        """One step that follows the cues of this name."""
        return export.using(step="drive", max_retries=0).step(name)

    @app.flow(queue="flows")
    def fulfil(name: str, boxes: int = 3, gift: bool = False) -> Any:
        """A map, a condition, a flow in a step, a step after a failure, and one at the end."""
        checked = echo.using(step="check").step({"gift": gift, "boxes": list(range(boxes))})
        unpacked = unpack.using(failed_ratio=0.5).map(checked["boxes"])
        wrapped = echo.using(step="wrap", when=checked["gift"]).step("paper")
        sent = deliver.using(after=[unpacked, wrapped, checked]).step(name)
        charge.using(step="refund", on="failure", after=sent).step(7, "free")
        echo.using(step="archive", on="end", after=sent).step(name)
        return sent

    @app.flow(queue="flows")
    def beside(name: str) -> Any:
        """Two steps that follow the cues of their names."""
        export.using(step="left", max_retries=0).step(f"{name}-left")
        return export.using(step="right", max_retries=0).step(f"{name}-right")

    @app.flow(queue="flows")
    def ask(what: str = "approval") -> Any:
        """A flow that waits for somebody."""
        if what == "anything":
            return signal("anything")
        if what == "count":
            return signal("count", int)
        return signal("approval", Approval, timeout="3d", default=Approval(ok=False))

    @app.flow(queue="flows")
    def mesh(layers: int, width: int) -> Any:
        """A graph in which no steps can be folded."""
        row = [echo.using(step=f"0-{k}", queue="held").step(k) for k in range(width)]
        for n in range(1, layers):
            row = [echo.using(step=f"{n}-{k}", after=[row[k], row[(7 * k + n) % width]]).step(k) for k in range(width)]
        return row[0]

    return app


def _price(plan: str) -> int:
    if plan not in PLANS:
        raise ValueError(f"there is no plan {plan}: choose one of {', '.join(PLANS)}")
    return 10 * PLANS.index(plan)


def _fall(depth: int) -> None:
    if depth == 0:
        raise ConnectionError("the CRM does not answer: 503 Service Unavailable")
    _fall(depth - 1)
