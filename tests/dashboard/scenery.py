"""Data of every kind, so that every page shows everything it can."""

from __future__ import annotations

from live import Live
from playwright.sync_api import Locator, Page, expect

from mainspring import cron, every

# Pages whose address has no id or name.
LISTS = (
    "/",
    "/jobs",
    "/flows",
    "/schedules",
    "/queues",
    "/dead",
    "/workers",
    "/audit",
    "/keys",
    "/webhooks",
    "/settings",
)

# Marks the heading of the page that is left, which the next page replaces.
FOLLOW = """(heading, url) => {
  heading.dataset.left = "";
  history.pushState(null, "", url);
  dispatchEvent(new PopStateEvent("popstate"));
}"""


def furnish(live: Live) -> list[str]:
    """The addresses of all pages, including those of a running and of a failed job."""
    app = live.app
    live.do(app.schedules.create("nightly", cron("30 2 * * *", tz="Europe/Berlin"), "sync_crm"))
    live.do(app.schedules.create("often", every(5).minutes, "send_email", kwargs={"to": "ada@example.org"}))
    live.do(app.schedules.pause("often", "the provider is down"))
    live.do(app.webhooks.create("ledger", "https://example.org/hook", events=["job.dead"]))
    done = live.enqueue("send_email", "ada@example.org", options={"tags": ["welcome"], "metadata": {"customer": 42}})
    dead = live.enqueue("charge", customer=7, plan="gold")
    live.do(app.jobs.wait(dead, 20))
    live.do(app.jobs.wait(done, 20))
    planned = flows(live)
    live.enqueue("send_email", "eve@example.org", options={"delay": 3600})
    live.do(app.queues.pause("any"))
    waits = live.enqueue("echo", {"n": 2**53 + 1})
    runs = live.enqueue("export", "long")
    live.cue("long", "log", "opening the file")
    live.cue("long", "progress", 25, 100, "rows")
    ids = [f"/jobs/{id}" for id in (done, dead, waits, runs)]
    ids += planned
    ones = ["/schedules/nightly", "/schedules/often", "/queues/any", "/queues/exports", "/webhooks/ledger"]
    return [*LISTS, *ids, *ones, f"/workers/{live.worker.id}"]


def flows(live: Live) -> list[str]:
    """The addresses of a flow that waits, in each view and with a step's details, and of one that is dead."""
    waits = live.enqueue("fulfil", "parcel", 11)
    live.cue("broken", "fail", "the van broke down")
    dead = live.enqueue("fulfil", "broken", 11)
    live.do(live.app.jobs.wait(dead, 20))
    steps = live.do(live.app.flows.steps(dead))
    inner = next(step.job_id for step in steps if step.name == "deliver")
    views = [f"{waits}?step=unpack", f"{dead}?step=wrap", f"{waits}?view=time&step=deliver", f"{dead}?view=steps"]
    return [*(f"/flows/{view}" for view in (*views, inner)), f"/jobs/{inner}"]


def shown(page: Page) -> Locator:
    """The main element of the page, once it shows the loaded data."""
    main = page.get_by_role("main")
    expect(main.get_by_role("heading", level=1)).to_be_visible()
    expect(main.locator("[aria-busy=true]")).to_have_count(0)
    return main


def follow(page: Page, url: str) -> Locator:
    """Goes to another page as a link does, without loading the files again; returns what `shown` does."""
    if page.url != url:
        page.get_by_role("main").get_by_role("heading", level=1).evaluate(FOLLOW, url)
        expect(page.locator("[data-left]")).to_have_count(0)
    return shown(page)
