"""The Django app: mainspring.django in INSTALLED_APPS."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class MainspringConfig(AppConfig):  # type: ignore[misc]
    """Imports the module `tasks` of every installed app, so that workers know their tasks."""

    name = "mainspring.django"
    label = "mainspring"
    verbose_name = "Mainspring"

    def ready(self) -> None:
        autodiscover_modules("tasks")
