"""/settings: what this server was started with."""

from __future__ import annotations

from litestar import get
from msgspec import Struct

from ...insight.settings_report import Setting, report
from ..access.authenticate import Spring, may


class SettingPage(Struct, frozen=True):
    items: list[Setting]


@get("/settings", **may("admin"))
async def list_settings(spring: Spring) -> SettingPage:
    """Each setting of this server's process: its value without secrets, where it came from, and what it does.

    Workers are other processes, and may have been started with others.
    """
    return SettingPage(report(spring.settings, spring.setting_sources))


ROUTES = [list_settings]
