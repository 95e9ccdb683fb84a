"""A person approves an expense on a web form: the flow waits for it, and goes on when the form is sent.

Serve it with `uvicorn approval_form:web`; here the form is filled in by a program.

Prints:
    POST /expenses: 202
    GET the form: 200, asks for ok, by
    POST the form: 200, thank you, Ada
    POST the form again: 409, it was answered already
    result: 120 EUR paid, approved by Ada
    declined: nothing is paid
    POST a form that is too late: 410, it is too late
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import parse_qs

import httpx
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse

from mainspring import Mainspring, SignalLate, SignalTwice, signal

jobs = Mainspring("memory://")


@dataclass
class Approval:
    ok: bool
    by: str = ""


@jobs.task
async def pay(amount: int, approval: Approval) -> str:
    return f"{amount} EUR paid, approved by {approval.by}"


@jobs.flow
def expense(amount: int) -> str | None:
    approval = signal("approval", Approval, timeout="14d", default=Approval(ok=False))
    return pay.using(when=approval.ok).step(amount, approval)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with jobs, jobs.worker():
        yield


web = FastAPI(lifespan=lifespan)
FORM = """<form method="post"><p>Pay this expense?</p>
<label><input type="checkbox" name="ok" value="true"> yes</label> <label>Your name <input name="by"></label>
<button>Send</button></form>"""


@web.post("/expenses", status_code=202)
async def claim(amount: int) -> dict[str, str]:
    run = await expense.enqueue(amount)
    return {"form": f"/expenses/{run.id}"}  # mailed to somebody who may approve it


@web.get("/expenses/{id}", response_class=HTMLResponse)
async def form(id: str) -> str:
    return FORM


@web.post("/expenses/{id}")
async def answer(id: str, request: Request) -> JSONResponse:
    sent = parse_qs((await request.body()).decode())
    by = sent.get("by", [""])[0]
    try:
        await jobs.flows.signal(id, "approval", Approval("ok" in sent, by))
    except SignalTwice:
        return JSONResponse("it was answered already", 409)
    except SignalLate:
        return JSONResponse("it is too late", 410)
    return JSONResponse(f"thank you, {by}")


async def main() -> None:
    async with web.router.lifespan_context(web), client() as http:
        made = await http.post("/expenses?amount=120")
        page = made.json()["form"]
        print("POST /expenses:", made.status_code)
        asks = [name for name in ("ok", "by") if f'name="{name}"' in (await http.get(page)).text]
        print(f"GET the form: 200, asks for {', '.join(asks)}")
        for what in ("POST the form", "POST the form again"):
            sent = await http.post(page, data={"ok": "true", "by": "Ada"})
            print(f"{what}: {sent.status_code}, {sent.json()}")
        print("result:", await result(page))
        page = (await http.post("/expenses?amount=9000")).json()["form"]
        await http.post(page, data={"by": "Grace"})
        print("declined:", await result(page) or "nothing is paid")
        other = (await http.post("/expenses?amount=5")).json()["form"]
        await jobs.flows.cancel(other.rpartition("/")[2])
        late = await http.post(other, data={"by": "Ada"})
        print(f"POST a form that is too late: {late.status_code}, {late.json()}")


async def result(page: str) -> str | None:
    """The result of the flow of this page."""
    job = await jobs.jobs.wait(page.rpartition("/")[2], 10)
    return None if job.result is None else job.result.strip('"')


def client() -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://127.0.0.1")


if __name__ == "__main__":
    asyncio.run(main())
