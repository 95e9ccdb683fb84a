"""Mainspring in Django projects: tasks, settings, commands, migrations. Put "mainspring.django" into INSTALLED_APPS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..lazy import exports

if TYPE_CHECKING:
    from .backend import MainspringBackend
    from .dashboard import staff, with_dashboard
    from .project_app import DjangoApp
    from .task_options import options

    app: DjangoApp
else:
    _find, __dir__ = exports(
        __name__,
        {
            "backend": ["MainspringBackend"],
            "dashboard": ["staff", "with_dashboard"],
            "task_options": ["options"],
        },
    )

    def __getattr__(name: str) -> Any:
        if name == "app":
            from .project_app import get_app

            return get_app()
        return _find(name)


__all__ = ["MainspringBackend", "app", "options", "staff", "with_dashboard"]
