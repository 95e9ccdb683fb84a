# ruff: noqa: PT009  these run in Django's test runner
"""The dashboard behind the login of a Django project."""

import asyncio
from typing import Any

import httpx
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client, TransactionTestCase
from project.asgi import application

from mainspring.django import app, staff
from suite import tasks


class Dashboard(TransactionTestCase):
    def cookie(self, name: str, **rights: bool) -> dict[str, str]:
        """The headers of a browser in which this user is logged in."""
        client = Client()
        client.force_login(User.objects.create_user(name, **rights))
        return {"Cookie": f"sessionid={client.cookies['sessionid'].value}"}

    def ask(self, *requests: tuple[str, str, dict[str, str]], application: Any = application) -> list[httpx.Response]:
        async def go() -> list[httpx.Response]:
            transport = httpx.ASGITransport(application)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
                return [await http.request(method, path, headers=headers) for method, path, headers in requests]

        return asyncio.run(go())

    def test_staff_are_let_in_with_their_roles(self) -> None:
        for name, rights, role in (
            ("ada", {"is_staff": True, "is_superuser": True}, "admin"),
            ("bob", {"is_staff": True}, "operator"),
        ):
            (answer,) = self.ask(("GET", "/ops/api/v1/session", self.cookie(name, **rights)))
            self.assertEqual((answer.json()["name"], answer.json()["role"]), (f"host:{name}", role))

    def test_others_are_not_let_in(self) -> None:
        for headers in ({}, {"Cookie": "sessionid=nonsense"}, self.cookie("eve"), self.cookie("old", is_active=False)):
            api, page = self.ask(
                ("GET", "/ops/api/v1/jobs", headers), ("GET", "/ops/jobs?x=1", {**headers, "Accept": "text/html"})
            )
            self.assertEqual(api.status_code, 401)
            self.assertEqual((page.status_code, page.headers["location"]), (302, "/accounts/login/?next=/ops/jobs"))

    def test_pages_of_other_sites_cannot_act_for_staff_and_the_audit_log_names_them(self) -> None:
        job, staff = tasks.nothing.enqueue().id, self.cookie("ada", is_staff=True)
        path = f"/ops/api/v1/jobs/{job}/cancel"
        foreign, own, page, django = self.ask(
            ("POST", path, {**staff, "Origin": "http://evil.example"}),
            ("POST", path, {**staff, "Origin": "http://127.0.0.1"}),
            ("GET", "/ops/", {**staff, "Accept": "text/html"}),
            ("GET", "/orders/ada", {}),
        )
        self.assertEqual((foreign.status_code, foreign.json()["code"]), (403, "csrf"))
        self.assertEqual((own.status_code, page.status_code, django.status_code), (200, 200, 202))
        self.assertIn("<title>Mainspring", page.text)
        self.assertIn(("host:ada", job), [(entry.who, entry.target) for entry in app.sync.audit.list()])

    def test_a_process_of_its_own_reads_the_same_cookie(self) -> None:
        alone = app.asgi(auth=staff)
        headers = self.cookie("ada", is_staff=True)
        (answer,) = self.ask(("GET", "/api/v1/session", headers), application=alone)
        self.assertEqual(answer.json()["name"], "host:ada")
        Session.objects.all().delete()
        (answer,) = self.ask(("GET", "/api/v1/session", headers), application=alone)
        self.assertEqual(answer.status_code, 401)
