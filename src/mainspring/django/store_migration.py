"""The operation of our Django migrations: it migrates the store's schema, in the store's database only."""

from __future__ import annotations

from typing import Any

from django.db.migrations.operations.base import Operation

from .project_app import get_app


class MigrateStore(Operation):  # type: ignore[misc]
    """Migrates the tables of the store to the newest schema that this release knows; backwards, drops them."""

    reversible = True
    reduces_to_sql = False

    def state_forwards(self, app_label: str, state: Any) -> None:
        """There are no models."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        self._migrate(schema_editor.connection, None)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        self._migrate(schema_editor.connection, 0)

    def describe(self) -> str:
        return "Migrate the tables of Mainspring"

    def _migrate(self, connection: Any, target: int | None) -> None:
        app = get_app()
        if connection.alias == app.database:
            app.sync.migrate(target)
