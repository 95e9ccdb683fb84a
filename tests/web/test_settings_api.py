"""/settings: the settings of this server, for admins."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from http_client import Client, browser

from mainspring import Mainspring
from mainspring.config import Settings
from mainspring.insight.settings_report import MEANINGS

ROOT = Path(__file__).parents[2]


async def test_settings_have_a_value_and_a_source(
    client: Client, spring: Mainspring, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client("admin") as http:
        found = {one["name"]: one for one in (await http.get("/settings")).json()["items"]}
    assert list(found) == list(Settings.__struct_fields__)
    assert (found["store"]["value"], found["store"]["source"]) == ("memory://", "argument")
    assert (found["lease"]["value"], found["lease"]["default"], found["lease"]["source"]) == (20, 20, "default")
    assert found["lease"]["variable"] == "MAINSPRING_LEASE"
    assert found["lease"]["meaning"].startswith("when a worker has sent no heartbeat for this long")


async def test_secrets_in_settings_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_JWT_SECRET", "s3cr3t" * 8)
    app = Mainspring("postgresql://ada:hunter2@127.0.0.1:1/jobs", api_key="msk_abcdef", jwt_algorithm="HS256")
    shown = {one.name: one for one in _report(app)}
    assert (shown["jwt_secret"].value, shown["jwt_secret"].source) == ("***", "environment")
    assert (shown["api_key"].value, shown["api_key"].secret) == ("***", True)
    assert "hunter2" not in str(shown["store"].value)


def _report(app: Mainspring):  # type: ignore[no-untyped-def]
    from mainspring.insight.settings_report import report

    return report(app.settings, app.setting_sources)


@pytest.mark.parametrize("role", ["viewer", "operator"])
async def test_settings_are_for_admins(client: Client, role: str) -> None:
    async with client(role) as http:  # type: ignore[arg-type]
        assert (await http.get("/settings")).status_code == 403
    async with client("admin", ["settings:read"]) as http:
        assert (await http.get("/settings")).status_code == 200
    async with client("admin", ["jobs:read"]) as http:
        assert (await http.get("/settings")).status_code == 403


async def test_settings_need_authentication(service: object) -> None:
    async with browser(service, "127.0.0.1", headers={}) as http:
        assert (await http.get("/settings")).status_code == 401


def test_descriptions_of_settings_are_those_of_the_docs() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| `MAINSPRING_\w+` \| .*? \| (.*) \|$", (ROOT / "docs/settings.md").read_text(), re.M
    )
    plain = {name: re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text) for name, text in rows}
    assert dict(MEANINGS) == plain
    assert set(MEANINGS) == set(Settings.__struct_fields__)
