"""Texts are masked before they are cut: viewers see no part of a secret in failures, log lines and audit entries."""

from __future__ import annotations

from http_client import Client

from mainspring import Context, Mainspring
from mainspring.control.audit_log import MAX_ENTRY_BYTES
from mainspring.records.outcome import MAX_STACK_CHARACTERS
from mainspring.task.context import MAX_LINE_CHARACTERS

# Every cut is within a password, which can be recognised only by the text after it.
PASSWORD = "kan4ri" * 60
SECRETS = f"postgres://user:{PASSWORD}@host "


def long(characters: int) -> str:
    return SECRETS * (characters // len(SECRETS) + 2)


async def test_a_viewer_sees_no_part_of_a_secret_in_a_failure_or_a_log_line_that_was_cut(
    spring: Mainspring, client: Client
) -> None:
    @spring.task(max_retries=0)
    async def read(ctx: Context) -> None:
        ctx.log.warning("%s", long(MAX_LINE_CHARACTERS))
        raise ValueError(long(MAX_STACK_CHARACTERS))

    handle = await read.enqueue()
    await spring.drain()
    async with client("viewer") as http:
        for path in (f"jobs/{handle.id}", f"jobs/{handle.id}/executions", f"jobs/{handle.id}/logs", "jobs", "dead"):
            answer = await http.get(f"/{path}")
            assert (answer.status_code, "host" in answer.text) == (200, True), path
            assert "kan4ri" not in answer.text, path


async def test_a_viewer_sees_no_part_of_a_secret_in_an_audit_entry_that_was_cut(
    spring: Mainspring, client: Client
) -> None:
    handle = await spring.tasks["send"].using(delay=60).enqueue(to="a")
    async with client("operator") as http:
        edit = {"arguments": {"to": long(MAX_ENTRY_BYTES)}, "tags": ["audited"]}
        assert (await http.patch(f"/jobs/{handle.id}", json=edit)).status_code == 200
    async with client("viewer") as http:
        entries = (await http.get("/audit", params={"action": "jobs.update"})).text
    assert "audited" in entries
    assert "host" in entries
    assert "kan4ri" not in entries
