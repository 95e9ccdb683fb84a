"""Visits: pages in their own browser contexts, and all errors on them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from chromium import TIMEOUT_MILLISECONDS, Chromium
from live import Live
from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Page, Request, WebError

from mainspring.records.api_key import Role

# Everything that a page can store, except for its cached files.
KEPT = "local_storage,indexeddb,service_workers,cache_storage"


class Visits:
    """`visit(live, "/jobs", role="viewer")` is a page, signed in and watched; `settle` fails on other complaints."""

    def __init__(self, chromium: Chromium) -> None:
        self._chromium = chromium
        self._contexts: list[BrowserContext] = []
        self._lent: list[tuple[str, BrowserContext, str]] = []
        self._expected: list[str] = []
        self._passed = False
        self.complaints: list[str] = []
        self._ears: dict[Any, Callable[..., None]] = {
            "console": self._said, "dialog": self._asked, "requestfailed": self._failed, "weberror": self._raised,
        }  # fmt: skip

    def __call__(self, live: Live, path: str = "/", *, role: Role | None = "operator", **options: Any) -> Page:
        """`options` are Playwright's for a context: color_scheme, viewport, java_script_enabled …"""
        context = self._borrowed(live, **options)
        page = context.pages[0] if context.pages else context.new_page()
        if role is not None:
            self.sign_in(page, live, role)
        page.goto(live.address + path)
        return page

    def sign_in(self, page: Page, live: Live, role: Role) -> None:
        """Signs in like the form, but faster."""
        answer = page.context.request.post(f"{live.address}/api/v1/session", data={"key": live.keys[role]})
        assert answer.ok, answer.text()

    def browser(self, **options: Any) -> BrowserContext:
        """An empty browser context with a fixed time zone, and without animations, so that elements do not move."""
        context = self._heard(self._chromium.context(**options))
        self._contexts.append(context)
        return context

    def _borrowed(self, live: Live, **options: Any) -> BrowserContext:
        """A browser context that keeps nothing but the dashboard's files, which an earlier test has loaded."""
        key = repr(sorted(options.items()))
        kept = self._chromium.kept[key]
        context = self._heard(kept.pop() if kept else self._chromium.context(**options))
        self._lent.append((key, context, live.origin))
        return context

    def _heard(self, context: BrowserContext) -> BrowserContext:
        for event, ear in self._ears.items():
            context.on(event, ear)
        return context

    def expects(self, pattern: str) -> None:
        """Complaints that match this pattern do not fail the test."""
        self._expected.append(pattern)

    def hear(self, page: Page, said: str) -> None:
        """Waits for a complaint with this text."""
        for _ in range(TIMEOUT_MILLISECONDS // 20):
            if any(said in one for one in self.complaints):
                return
            page.wait_for_timeout(20)
        raise AssertionError(f"nobody said {said!r}, but: {self.complaints}")

    def settle(self) -> None:
        wrong = [said for said in self.complaints if not any(re.search(one, said) for one in self._expected)]
        if wrong:
            raise AssertionError("this went wrong meanwhile:\n" + "\n".join(wrong))
        self._passed = True

    def close(self) -> None:
        for context in self._contexts:
            context.close()
        for key, context, origin in self._lent:
            if self._passed and context.pages:
                self._give_back(key, context, origin)
            else:
                context.close()

    def _give_back(self, key: str, context: BrowserContext, origin: str) -> None:
        for event, ear in self._ears.items():
            context.remove_listener(event, ear)
        context.set_offline(False)
        context.clear_cookies()
        page, *others = context.pages  # the first stays open: the next visit uses it, a new one takes twice the time
        for other in others:
            other.close()
        session = context.new_cdp_session(page)
        if page.url.startswith(origin):
            session.send("DOMStorage.clear", {"storageId": {"securityOrigin": origin, "isLocalStorage": False}})
        page.goto("about:blank")
        session.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": KEPT})
        session.detach()
        self._chromium.kept[key].append(context)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self.complaints.append(f"console {message.type}: {message.text} ({message.location.get('url', '')})")

    def _asked(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog {dialog.type}: {dialog.message}")
        dialog.dismiss()

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page has been left, or has its response
            self.complaints.append(f"request failed: {request.method} {request.url}: {request.failure}")

    def _raised(self, error: WebError) -> None:
        self.complaints.append(f"uncaught: {error.error.stack or error.error.message}")
