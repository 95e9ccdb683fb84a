"""The tables of the store."""

from __future__ import annotations

from django.db import migrations

from ..store_migration import MigrateStore


class Migration(migrations.Migration):  # type: ignore[misc]
    """Not atomic: the store has a connection of its own, which would wait for Django's transaction."""

    initial = True
    atomic = False
    dependencies = ()
    operations = (MigrateStore(),)
