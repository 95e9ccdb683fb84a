"""A local Chromium, driven by Playwright in one thread."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHOSEN = os.environ.get("MAINSPRING_TEST_CHROMIUM")
# Milliseconds that a page may take to show its content: used up only if the machine is busy.
TIMEOUT_MILLISECONDS = 1000 * int(os.environ.get("MAINSPRING_TEST_PATIENCE", "30"))
# Only the page itself receives violations of its policy, so it logs them.
TELLING = """addEventListener("securitypolicyviolation", (event) =>
  console.error(`content security policy: ${event.violatedDirective} ${event.blockedURI}`))"""
P = ParamSpec("P")
T = TypeVar("T")


def program() -> str:
    """The path of the browser."""
    for name in (CHOSEN,) if CHOSEN else NAMES:
        if found := shutil.which(name):
            return found
    raise RuntimeError("there is no Chromium on this machine: scripts/chromium gets one, or put chromium into PATH")


class Chromium:
    """A browser without a window. Playwright keeps the event loop of its thread, so that must not be pytest's."""

    def __init__(self) -> None:
        self._hands = ThreadPoolExecutor(1, "chromium")
        self.kept: defaultdict[str, list[BrowserContext]] = defaultdict(list)
        """Contexts that the next visit with the same options may reuse."""
        self.browser: Browser = self.do(self._launch)

    def do(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._hands.submit(act, *args, **kwargs).result()

    def _launch(self) -> Any:
        expect.set_options(timeout=TIMEOUT_MILLISECONDS)
        self._playwright = sync_playwright().start()
        # Root cannot use the sandbox. One renderer for all pages is ready at once for the next page.
        return self._playwright.chromium.launch(
            executable_path=program(),
            chromium_sandbox=os.geteuid() != 0,
            args=["--renderer-process-limit=1", "--disable-gpu"],
        )

    def context(self, **options: Any) -> BrowserContext:
        given = {"timezone_id": "Europe/Berlin", "locale": "en-GB", "reduced_motion": "reduce", **options}
        context = self.browser.new_context(**given)
        context.set_default_timeout(TIMEOUT_MILLISECONDS)
        context.add_init_script(TELLING)
        return context

    def close(self) -> None:
        self.do(self.browser.close)
        self.do(self._playwright.stop)
        self._hands.shutdown()
