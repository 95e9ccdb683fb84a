"""/settings: the settings of this server."""

from __future__ import annotations

from litestar import get
from msgspec import Struct

from ...insight.settings_report import Setting, report
from ..access.authenticate import App, allow


class SettingPage(Struct, frozen=True):
    items: list[Setting]


@get("/settings", **allow("admin"))
async def list_settings(app: App) -> SettingPage:
    """The settings of this server process: value (secrets masked), source and description.

    Workers are other processes and may have other settings.
    """
    return SettingPage(report(app.settings, app.setting_sources))


ROUTES = [list_settings]
