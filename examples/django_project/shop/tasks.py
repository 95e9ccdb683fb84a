"""Tasks: Django's own kind, which run on any backend, and one of Mainspring's, with a schedule."""

from typing import Any

from mainspring import every
from mainspring.django import app, options

try:
    from django.tasks import task
except ImportError:  # before Django 6
    from django_tasks import task

from shop.models import Order


@task(queue_name="mail")
@options(max_retries=3, timeout=60)
def send_receipt(order: int) -> str:
    found = Order.objects.get(id=order)
    found.receipt = f"receipt for {found.customer}"
    found.save()
    return found.receipt


@task(takes_context=True)
def count_attempts(context: Any, note: str) -> str:
    return f"{note}: attempt {context.attempt} of {context.task_result.id}"


@task
async def greet(name: str) -> str:
    return f"hello {name}, one of {await Order.objects.acount()}"


@app.on(every(hours=1), name="remind")
def remind() -> int:
    return Order.objects.filter(receipt="").count()
