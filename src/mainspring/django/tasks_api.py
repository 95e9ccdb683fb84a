"""The API of Django's tasks: `django.tasks` of Django 6, or the package django-tasks on an earlier one."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import django
from django.core.exceptions import ImproperlyConfigured

BUILT_IN = django.VERSION[0] >= 6
_PACKAGE = "django.tasks" if BUILT_IN else "django_tasks"


def _module(name: str) -> Any:
    try:
        return import_module(f"{_PACKAGE}.{name}")
    except ModuleNotFoundError as error:
        if error.name != _PACKAGE:
            raise
        raise ImproperlyConfigured(
            "tasks need Django 6 or the package django-tasks: pip install django-tasks"
        ) from None


base = _module("base")
backends = _module("backends.base")
exceptions = _module("exceptions")
signals = _module("signals")
InvalidTask: Any = exceptions.InvalidTask if BUILT_IN else exceptions.InvalidTaskError
normalize_json: Any = import_module("django.utils.json" if BUILT_IN else "django_tasks.utils").normalize_json
