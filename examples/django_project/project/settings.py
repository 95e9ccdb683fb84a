"""Settings: PostgreSQL if $POSTGRES has its host, port, user and database; else a SQLite file."""

import os
from pathlib import Path
from typing import Any

import django

FOLDER = Path(os.environ.get("SHOP_FOLDER", Path(__file__).parent.parent))
SECRET_KEY = "only-for-this-example"
DEBUG = True
USE_TZ = True
ALLOWED_HOSTS = ["127.0.0.1", "testserver"]
ROOT_URLCONF = "project.urls"
ASGI_APPLICATION = "project.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    *([] if django.VERSION >= (6, 0) else ["django_tasks"]),
    "mainspring.django",
    "shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]

TASKS = {"default": {"BACKEND": "mainspring.django.MainspringBackend", "QUEUES": ["default", "mail"]}}
MAINSPRING = {"database": "default", "concurrency": 20}


def database() -> dict[str, Any]:
    if given := os.environ.get("POSTGRES"):
        host, port, user, name = given.split()
        return {"ENGINE": "django.db.backends.postgresql", "HOST": host, "PORT": port, "USER": user, "NAME": name}
    # The test database is a file as well: the store is in it, and other connections read it.
    test = {"NAME": FOLDER / "test.sqlite3"}
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": FOLDER / "db.sqlite3", "TEST": test}


DATABASES = {"default": database()}
