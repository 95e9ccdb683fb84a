"""mainspring server and mainspring dev as processes."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

HOURLY = {"name": "hourly", "task": "add", "trigger": "0 * * * *", "kwargs": {"a": 1}}


def address(line: str) -> str:
    found = re.search(r"http://127\.0\.0\.1:\d+", line)
    assert found
    return found[0]


def token(line: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {line.rpartition('#token=')[2]}"}


def begin(line: socket.socket, key: dict[str, str], body: bytes) -> None:
    """Sends a request without its body; the server then waits for the body."""
    head = f"POST /api/v1/schedules HTTP/1.1\r\nHost: x\r\nAuthorization: {key['Authorization']}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
    line.sendall(head.encode())
    assert b"100 Continue" in line.recv(1000)


def refuses(at: httpx.URL) -> bool:
    try:
        socket.create_connection((at.host, at.port), timeout=5).close()
    except ConnectionError:
        return True
    return False


@pytest.fixture
def key(cli: Callable[..., Any], shop: str) -> dict[str, str]:
    made = cli("keys", "create", "test", "--role", "operator", "--app", shop, "--json")
    assert made.exit_code == 0, made.stderr
    secret = next(value for value in json.loads(made.stdout).values() if str(value).startswith("msk_"))
    return {"Authorization": f"Bearer {secret}"}


# server


def test_a_server_with_keys_accepts_them_prints_no_token_and_stops_on_a_signal(process, shop, key):
    serving = process("server", shop, "--port", "0")
    at = address(serving.line("serving sqlite:///jobs.db on"))
    assert httpx.get(f"{at}/api/v1/queues").status_code == 401
    assert httpx.get(f"{at}/api/v1/queues", headers=key).json() == {"items": []}
    serving.signal(signal.SIGTERM)
    code, out, errors = serving.end()
    assert (code, out.splitlines()[-1], errors) == (0, "server stopped", "")
    assert "token" not in out


def test_first_start_prints_a_single_use_token(process, shop):
    serving = process("server", shop, "--port", "0")
    welcome = serving.line("first start")
    at = address(serving.line("serving"))
    made = httpx.post(f"{at}/api/v1/keys", headers=token(welcome), json={"name": "mine", "role": "admin"})
    assert made.status_code == 201
    again = httpx.post(f"{at}/api/v1/keys", headers=token(welcome), json={"name": "other", "role": "admin"})
    assert again.status_code == 401


def test_a_request_in_progress_is_answered_after_sigterm(process, shop, key):
    serving = process("server", shop, "--port", "0")
    at = httpx.URL(address(serving.line("serving")))
    body = json.dumps(HOURLY).encode()
    with socket.create_connection((at.host, at.port), timeout=30) as line:
        begin(line, key, body)
        serving.signal(signal.SIGTERM)
        assert any(refuses(at) for _ in range(100_000))
        line.sendall(body)
        assert b"201 Created" in line.recv(10_000)
    assert serving.end()[0] == 0


def test_second_signal_does_not_wait_for_requests(process, shop, key):
    serving = process("server", shop, "--port", "0")
    at = httpx.URL(address(serving.line("serving")))
    with socket.create_connection((at.host, at.port), timeout=30) as line:
        line.sendall(
            f"POST /api/v1/schedules HTTP/1.1\r\nHost: x\r\nAuthorization: {key['Authorization']}\r\n".encode()
        )
        line.sendall(b"Content-Type: application/json\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n")
        line.recv(1000)
        serving.signal(signal.SIGTERM)
        assert any(refuses(at) for _ in range(100_000))
        serving.signal(signal.SIGTERM)
        assert serving.end()[0] == 0


REFUSED = [
    (("--host", "0.0.0.0", "--no-auth"), "without sign-in everyone who can reach 0.0.0.0 would be an admin"),
    (("--host", "nowhere.invalid"), "cannot listen on 'nowhere.invalid'"),
    (("--host", "192.0.2.1"), "cannot listen on 192.0.2.1 port 8765"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_invalid_address_is_refused(cli, shop, options, words):
    refused = cli("server", shop, *options)
    assert refused.exit_code == 1
    assert words in refused.stderr


def test_port_in_use_is_an_error(cli, shop):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = cli("server", shop, "--port", str(port))
    assert f"cannot listen on 127.0.0.1 port {port}: another program has it; choose one with --port" in refused.stderr


# dev


@pytest.fixture
def developing(process: Callable[..., Any], shop: str) -> Any:
    return process("dev", shop, "--port", "0", "--no-auth")


def test_dev_runs_jobs_and_serves_also_after_its_worker_was_stopped(developing, cli, shop, enqueued, until):
    at = address(developing.line("running on sqlite:///jobs.db"))
    job = enqueued("add", "a=1")
    assert httpx.get(f"{at}/api/v1/queues").status_code == 200
    until(lambda: "completed" in cli("jobs", "show", job, "--app", shop).stdout)
    (worker,) = httpx.get(f"{at}/api/v1/workers").json()["items"]
    answer = httpx.post(f"{at}/api/v1/workers/{worker['id']}/stop")
    assert (answer.status_code, answer.json()["state"]) == (200, "stopping")
    until(lambda: cli("workers", "list", "--json", "--app", shop).stdout.strip() == "[]")
    assert httpx.get(f"{at}/api/v1/workers").json()["items"] == []
    developing.signal(signal.SIGTERM)
    assert developing.end()[0] == 0


def test_dev_without_litestar_is_an_error(cli, shop, monkeypatch):
    monkeypatch.setattr("mainspring.cli.service.find_spec", lambda name: None)
    done = cli("dev", shop)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "this needs the server's parts: pip install 'mainspring[server]'" in done.stderr


def test_dev_does_not_outlive_its_reloader(developing):
    at = httpx.URL(address(developing.line("running on")))
    developing.signal(signal.SIGKILL)
    developing.end()
    assert any(refuses(at) for _ in range(100_000))


def test_dev_reloads_changed_code_and_after_an_error(developing, here: Path):
    source = here / "shop.py"
    first = developing.line("running on")
    good = source.read_text()
    source.write_text(f"{good}\n@app.task\nasync def another() -> None: ...\n")
    second = developing.line("running on")
    tasks = [int(re.search(r"(\d+) tasks", line)[1]) for line in (first, second)]
    assert tasks[1] == tasks[0] + 1
    source.write_text("def broken(:\n")
    developing.logged("it starts again when a file changes")
    source.write_text(good)
    assert developing.line("running on").split(";")[0] == first.split(";")[0]
    developing.signal(signal.SIGINT)
    assert developing.end()[0] == 0
