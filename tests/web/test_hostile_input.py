"""Hostile strings and bodies get a refusal with a reason or a valid response, on every store, never a 500."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple, cast, get_args
from urllib.parse import quote

import pytest
from http_client import Client, browser
from msgspec import inspect

from mainspring import Mainspring
from mainspring.api import asgi
from mainspring.api.access.authenticate import Principal
from mainspring.api.service import litestar_app
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.trigger import AnyTrigger
from servers import Postgres, Redis

STRINGS = [
    "'", '"; drop table jobs; --', "\\", "%", "_", "\x00", "a\x00b", "\x1b[2J", "\u202e", "💥", "\ufffd", "x" * 5000,
    "{}", "$.x", "../../etc/passwd", "<script>", "NaN", str(2**63), "-1", "null", " ", "\n", "*", "?", "#",
]  # fmt: skip
BODIES = [
    b"", b"nul", b"{", b"[" * 100_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000, b"NaN", b"1e999",
    b"\xff\xfe", b'"\\ud800"', b'{"task":"\\ud800x"}', b'{"task":"\xed\xa0\x80"}', b"null", b"[]", b"0", b"9" * 5000,
    b'{"task":"t","arguments":{"n":1e999}}', b'{"task":"t","arguments":{"n":' + b"9" * 5000 + b"}}",
    b'{"task":"t","arguments":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001,
    b'{"task":"t","arguments":{"a":' + b"[" * 900 + b"]" * 900 + b"}}",
    b'{"task":"t","metadata":{"n":9223372036854775808}}', b'{"task":"t","priority":1.5}',
    b'{"action":"cancel","ids":["\\u0000"]}', b'{"action":"cancel","filter":{"queues":["\\u0000"]}}',
    b'{"action":"cancel","filter":{"key_prefix":"\\u0000"}}', b'{"delay":1e308}', b'{"at":"9999-12-31T23:59:59+00:00"}',
    b'{"action":"cancel","filter":{"created_before":"0001-01-01T00:00:00+23:59"}}', b'{"reason":"\\u0000"}',
    b'{"run_at":"9999-12-31T23:59:59-23:59"}', b'{"task":"t","expires":1e9,"run_at":"9999-12-31T23:59:59Z"}',
    b'{"metadata":{"\\u0000":1}}', b'{"tags":["\\u0000"]}', b'{"arguments":{"\\u0000":1}}', b'{"queue":"\\u0000"}',
    b'{"arguments":{"a":"\\u0000"}}', b'{"priority":null}', b'{"timeout":1e-320}', b'{"concurrency":1e3}',
]  # fmt: skip
LISTS = (
    "queue",
    "task",
    "tag",
    "schedule",
    "worker",
    "error",
    "key_prefix",
    "after",
    "state",
    "limit",
    "created_after",
)


class Counted:
    """A store that counts how often something of it is used."""

    def __init__(self, store: Store) -> None:
        self._store, self.uses = store, 0

    def __getattr__(self, name: str) -> Any:
        self.uses += 1
        return getattr(self._store, name)


class Services:
    """The same service on every store, without tasks, which has the fewest checks. A request that does not use the
    store on the first of them is not sent to the others."""

    def __init__(self, stores: dict[str, Store]) -> None:
        self._loop = asyncio.new_event_loop()
        self._first = Counted(next(iter(stores.values())))
        self._apps = {name: Mainspring(store) for name, store in stores.items()}
        self._apps[next(iter(stores))] = Mainspring(cast(Store, self._first))
        self._http = {name: browser(asgi(app, authenticators=[self._way])) for name, app in self._apps.items()}
        self.jobs: dict[str, str] = {}
        """On each store, the id of a job; it takes the place of {job} in a path."""
        for app in self._apps.values():
            self._loop.run_until_complete(app.enqueue("t"))

    async def _way(self, _: Any) -> Principal:
        return Principal(name="key:one", role="admin")

    def ask(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        """The answer of each store that was asked."""
        answers: dict[str, Any] = {}
        before = self._first.uses
        for name, http in self._http.items():
            place = path.replace("{job}", self.jobs.get(name, "x"))
            answers[name] = self._loop.run_until_complete(http.request(method, place, **more))
            if self._first.uses == before:
                break
        return answers

    def close(self) -> None:
        for app in self._apps.values():
            self._loop.run_until_complete(app.close())
        self._loop.close()


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, redis: Redis) -> Iterator[Services]:
    file = f"sqlite:///{tmp_path_factory.mktemp('hostile')}/jobs.db"
    services = Services(
        {
            "sqlite": open_store(file, durability="relaxed"),
            "postgres": open_store(postgres.fresh("hostile")),
            "redis": open_store(redis.fresh("hostile")),
        }
    )
    yield services
    services.close()


def honest(answer: Any) -> bool:
    problem = answer.status_code >= 400 and answer.headers["Content-Type"] == "application/problem+json"
    return answer.status_code < 300 or (answer.status_code < 500 and problem)


def codes(answers: dict[str, Any]) -> set[tuple[int, str]]:
    return {(answer.status_code, answer.json()["code"]) for answer in answers.values()}


def dishonest(answers: dict[str, Any]) -> dict[str, str]:
    """What the stores have said that gave no honest answer."""
    return {store: answer.text for store, answer in answers.items() if not honest(answer)}


@pytest.mark.parametrize("parameter", LISTS)
def test_hostile_strings_in_job_filters_do_not_cause_a_500(services: Services, parameter: str) -> None:
    for text in STRINGS:
        answers = services.ask("GET", f"/jobs?{parameter}={quote(text)}")
        assert dishonest(answers) == {}, text
        for answer in answers.values():
            assert answer.status_code == 400 or parameter == "after" or answer.json()["items"] == []


@pytest.mark.parametrize("query", ["queue=%ff", "queue=%ED%A0%80", "%00=1", "=", "&&&", "queue[]=1", "limit=1&limit=2"])
def test_hostile_query_strings_do_not_cause_a_500(services: Services, query: str) -> None:
    assert dishonest(services.ask("GET", f"/jobs?{query}")) == {}


def test_hostile_execution_ids_do_not_cause_a_500(services: Services) -> None:
    for text in STRINGS:
        assert dishonest(services.ask("GET", f"/executions/{quote(text, safe='')}.1")) == {}, text


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/jobs"), ("POST", "/jobs/bulk"), ("POST", "/dead/redrive"), ("PATCH", "/jobs/{job}"),
        ("POST", "/jobs/{job}/cancel"), ("POST", "/jobs/{job}/reschedule"), ("PATCH", "/queues/q"),
        ("POST", "/workers/w/resize"),
    ],
)  # fmt: skip
def test_hostile_bodies_do_not_cause_a_500(services: Services, method: str, path: str) -> None:
    found = services.ask("GET", "/jobs?state=pending&state=scheduled&limit=1")
    services.jobs = {store: items[0]["id"] for store, answer in found.items() if (items := answer.json()["items"])}
    for body in BODIES:
        assert dishonest(services.ask(method, path, content=body)) == {}, body[:200]


def test_a_body_that_is_nested_too_deeply_is_malformed(services: Services) -> None:
    answers = services.ask("POST", "/jobs", content=b'{"arguments":{"a":' + b"[" * 100_000)
    assert codes(answers) == {(400, "malformed")}


def test_a_body_over_the_limit_is_413(services: Services) -> None:
    answers = services.ask("POST", "/jobs", content=b" " * (8 << 20) + b"x")
    assert codes(answers) == {(413, "too_large")}


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "x", ";;"])
def test_a_body_of_another_content_type_is_415(services: Services, kind: str) -> None:
    answers = services.ask("POST", "/jobs", content=b'{"task":"t"}', headers={"Content-Type": kind})
    assert codes(answers) == {(415, "unsupported_media_type")}


def test_json_may_name_its_charset(services: Services) -> None:
    headers = {"Content-Type": "application/json; charset=utf-8"}
    answers = services.ask("POST", "/jobs", content=b'{"task":"t"}', headers=headers)
    assert [answer.status_code for answer in answers.values()] == [201] * 3


# every parameter and every field of every route

INSTANTS = ["0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00", "2026-01-01T00:00:00"]
NUMBERS = ["0", "-1", "1e400", "nan", str(2**63), "9" * 30, "-" + "9" * 30, "9" * 5000]
QUERY_VALUES = [*INSTANTS, *NUMBERS, "99999999999999999999d", "\x00", "a\x00b", "null", "x" * 5000, ""]
FIELD_VALUES: list[Any] = [
    None, True, -1, 1.5, 2**63, 10**30, 1e308, "", "\x00", "a\x00b", "\x1b[31m", "x" * 5000, *INSTANTS, "99999999d",
    "***", "* * * * *", [], ["\x00"], ["x"] * 150, {}, {"\x00": 1}, {"a": 10**30}, {"kind": "every", "seconds": 1e308},
]  # fmt: skip
# A valid body for each route that needs one.
RIGHT: dict[str, dict[str, Any]] = {
    "POST /jobs": {"task": "t", "delay": 3600},
    "POST /jobs/bulk": {"action": "pause", "all": True},
    "POST /dead/redrive": {"all": True},
    "POST /schedules": {"name": "other", "task": "t", "trigger": "0 9 * * *"},
    "POST /schedules/{name}/reschedule": {"at": "2040-01-01T00:00:00Z"},
    "POST /schedules/{name}/backfill": {"start": "2026-01-01T00:00:00Z", "dry_run": True},
    "POST /scheduler/bulk": {"action": "pause", "names": ["nothing"]},
    "POST /cron/preview": {"trigger": "0 9 * * *"},
    "PATCH /queues/{name}": {"paused": True},
    "POST /keys": {"name": "k"},
    "POST /webhooks": {"name": "w", "url": "https://example.com/", "events": ["job.dead"]},
    "POST /triggers": {"name": "h", "task": "t"},
}


class Route(NamedTuple):
    method: str
    path: str
    parameters: list[str]
    """Query parameters."""
    fields: list[str]
    """Body fields."""

    @property
    def right(self) -> dict[str, Any]:
        return RIGHT.get(f"{self.method} {self.path.removeprefix('/api/v1')}", {})


def every_route() -> Iterator[Route]:
    """All routes except pages and the live stream, which does not end."""
    for route in litestar_app().routes:
        for method, (handler, expected) in route.route_handler_map.items():  # type: ignore[union-attr]
            path = re.sub(r":[a-z]+\}", "}", route.path)
            if method != "OPTIONS" and not handler.opt.get("page") and not path.endswith("/events"):
                parameters = sorted(one.field_alias for one in expected.expected_query_params)
                field = handler.parsed_data_field
                yield Route(str(method), path, parameters, [] if field is None else fields_of(field.annotation))


def fields_of(kind: Any) -> list[str]:
    shape = inspect.type_info(kind)
    shapes = shape.types if isinstance(shape, inspect.UnionType) else [shape]
    return [field.encode_name for one in shapes if isinstance(one, inspect.StructType) for field in one.fields]


def filled(path: str) -> str:
    name = "known" if path.startswith(("/api/v1/schedules", "/api/v1/webhooks", "/api/v1/triggers")) else "{job}"
    return re.sub(r"\{[^}]*\}", name, path)


@pytest.fixture
def known(services: Services) -> Services:
    """With a job on each store; schedule, webhook and trigger are called `known`."""
    for path in ("/schedules", "/webhooks", "/triggers"):
        answers = services.ask("POST", path, json=RIGHT[f"POST {path}"] | {"name": "known"})
        assert {answer.status_code for answer in answers.values()} <= {201, 409}
    made = services.ask("POST", "/jobs", json=RIGHT["POST /jobs"])
    services.jobs = {store: answer.json()["id"] for store, answer in made.items()}
    assert len(services.jobs) == 3
    return services


def test_hostile_parameters_of_every_route_do_not_cause_a_500(known: Services) -> None:
    hurt = []
    for route in every_route():
        for name, value in product(route.parameters, QUERY_VALUES):
            address = f"{filled(route.path)}?{name}={quote(value)}"
            if wrong := dishonest(known.ask(route.method, address)):
                hurt.append((address, wrong))
    assert hurt == []


def test_hostile_names_in_every_path_do_not_cause_a_500(services: Services) -> None:
    hurt = []
    for route, text in product(every_route(), STRINGS):
        if "{" in route.path:
            address = re.sub(r"\{[^}]*\}", lambda _: quote(text, safe=""), route.path)  # noqa: B023
            if wrong := dishonest(services.ask(route.method, address, json=route.right)):
                hurt.append((route.method, address, wrong))
    assert hurt == []


def test_hostile_fields_of_every_body_do_not_cause_a_500(known: Services) -> None:
    hurt = []
    for route in every_route():
        for name, value in product(route.fields, FIELD_VALUES):
            body = json.dumps(route.right | {name: value}).encode()
            if wrong := dishonest(known.ask(route.method, filled(route.path), content=body)):
                hurt.append((str(route), name, value, wrong))
    assert hurt == []


READS = (
    "/jobs?limit=200", "/jobs?limit=200&full=true&arguments=true", "/schedules?limit=200", "/audit?limit=200", "/dead",
    "/queues", "/webhooks", "/triggers", "/keys", "/stats", "/stats?window=ever", "/depth", "/scheduler/metrics",
    "/scheduler/outlook", "/scheduler/distribution", "/tasks", "/settings", "/workers", "/metrics", "/openapi.json",
)  # fmt: skip


TRIGGERS: dict[str, dict[str, Any]] = {
    "cron": {"expr": "0 9 * * *"}, "every": {"seconds": 60}, "calendar": {"days": 1, "times": ["09:00"]},
    "at": {"when": "2040-01-01T00:00:00Z"},
}  # fmt: skip


@pytest.mark.parametrize("kind", TRIGGERS)
async def test_hostile_fields_of_a_trigger_do_not_cause_a_500(client: Client, kind: str) -> None:
    names = {name for one in get_args(AnyTrigger) for name in one.__struct_fields__}
    async with client() as http:
        for name, value in product(sorted(names), FIELD_VALUES):
            rule = {"kind": kind, **TRIGGERS[kind], name: value}
            for after in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00"):
                answer = await http.post(
                    "/cron/preview", content=json.dumps({"trigger": rule, "after": after}).encode()
                )
                assert honest(answer), (rule, after, answer.text)


def test_accepted_hostile_input_can_be_read(services: Services) -> None:
    for path in READS:
        for store, answer in services.ask("GET", path).items():
            assert answer.status_code == 200, (store, path, answer.text)
