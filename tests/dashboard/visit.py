"""Visits: pages in a browser of their own each, and all that went wrong on them."""

from __future__ import annotations

import re
from typing import Any

from chromium import PATIENCE, Chromium
from live import Live
from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Page, Request, WebError

from mainspring.credential import Role

# What a browser does not let a page do is told to the page alone, so it has to say it.
TELLING = """addEventListener("securitypolicyviolation", (event) =>
  console.error(`content security policy: ${event.violatedDirective} ${event.blockedURI}`))"""


class Visits:
    """`visit(live, "/jobs", role="viewer")` is a page, signed in and watched; `settle` fails if anything went wrong."""

    def __init__(self, chromium: Chromium) -> None:
        self._chromium = chromium
        self._contexts: list[BrowserContext] = []
        self._expected: list[str] = []
        self.complaints: list[str] = []

    def __call__(self, live: Live, path: str = "/", *, role: Role | None = "operator", **options: Any) -> Page:
        """`options` are Playwright's for a context: color_scheme, viewport, java_script_enabled …"""
        page = self.browser(**options).new_page()
        if role is not None:
            self.sign_in(page, live, role)
        page.goto(live.address + path)
        return page

    def sign_in(self, page: Page, live: Live, role: Role) -> None:
        """As the form does, but quicker."""
        answer = page.context.request.post(f"{live.address}/api/v1/session", data={"key": live.keys[role]})
        assert answer.ok, answer.text()

    def browser(self, **options: Any) -> BrowserContext:
        """One that remembers nothing, in a zone of its own; without motion, so that what is there is where it is."""
        given = {"timezone_id": "Europe/Berlin", "locale": "en-GB", "reduced_motion": "reduce", **options}
        context = self._chromium.browser.new_context(**given)
        context.set_default_timeout(PATIENCE)
        context.add_init_script(TELLING)
        self._contexts.append(context)
        context.on("console", self._said)
        context.on("dialog", self._asked)
        context.on("requestfailed", self._failed)
        context.on("weberror", self._raised)
        return context

    def expects(self, pattern: str) -> None:
        """Complaints with this in them are no fault in this test."""
        self._expected.append(pattern)

    def hear(self, page: Page, said: str) -> None:
        """Waits for a complaint with this in it."""
        for _ in range(PATIENCE // 20):
            if any(said in one for one in self.complaints):
                return
            page.wait_for_timeout(20)
        raise AssertionError(f"nobody said {said!r}, but: {self.complaints}")

    def settle(self) -> None:
        wrong = [said for said in self.complaints if not any(re.search(one, said) for one in self._expected)]
        if wrong:
            raise AssertionError("this went wrong meanwhile:\n" + "\n".join(wrong))

    def close(self) -> None:
        for context in self._contexts:
            context.close()

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self.complaints.append(f"console {message.type}: {message.text} ({message.location.get('url', '')})")

    def _asked(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog {dialog.type}: {dialog.message}")
        dialog.dismiss()

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page has gone elsewhere, or has what it wanted
            self.complaints.append(f"request failed: {request.method} {request.url}: {request.failure}")

    def _raised(self, error: WebError) -> None:
        self.complaints.append(f"uncaught: {error.error.stack or error.error.message}")
