"""Tasks that succeed and fail in every way."""

import os
import sys
import threading
from typing import Any

from django.db import connection, connections
from shop.models import Order

from mainspring.django import app, options

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task


class Trouble(Exception):
    """An exception that only this module has."""


@task
def add(*numbers: int, scale: int = 1) -> int:
    return sum(numbers) * scale


@task
async def add_later(first: int, second: int) -> list[int]:
    return [first + second, await Order.objects.acount()]


@task(priority=7, queue_name="mail")
def nothing() -> None: ...


@task
def fail(text: str) -> None:
    raise Trouble(text)


@task
@options(max_retries=1, backoff=lambda n: 0)
def fail_twice() -> None:
    raise Trouble("again")


@task(takes_context=True)
@options(max_retries=2, backoff=lambda n: 0)
def third_time(context: Any) -> int:
    if context.attempt < 3:
        raise ValueError(f"attempt {context.attempt}")
    return context.attempt


@task
async def fail_later() -> None:
    raise Trouble("later")


@task
def leave() -> None:
    sys.exit(3)


@task
def return_an_object() -> object:
    return object()


@task
@options(timeout=0.05)
async def hang() -> None:
    import asyncio

    await asyncio.Event().wait()


used: list[Any] = []


@task
def opened_before() -> list[Any]:
    """The thread, and whether it had a connection from an earlier run."""
    before = connection.connection is not None
    used.append(connections["default"])
    return [threading.get_ident(), before, Order.objects.count()]


@app.task(executor="process")
def in_a_process(customer: str) -> list[Any]:
    Order.objects.create(customer=customer)
    return [os.getpid(), str(connection.settings_dict["NAME"])]


@app.task
def native_opened_before() -> list[Any]:
    return opened_before.func()
