"""manage.py mainspring: the whole command line, with the project's app."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import click
from django.core.management.base import BaseCommand, CommandError

from ....cli import main
from ....sync import run
from ...project_app import get_app

APP = "mainspring.django:app"


class Command(BaseCommand):  # type: ignore[misc]
    """Passes its arguments on: manage.py mainspring worker --concurrency 20."""

    help = "Run Mainspring's command line on this project: worker, server, jobs, doctor, …"
    # What it runs reads the database when it needs it, and checks nothing that Django checks.
    requires_system_checks = ()

    def run_from_argv(self, argv: list[str]) -> None:
        django = ArgumentParser(add_help=False, allow_abbrev=False)  # these are Django's: they have been applied
        django.add_argument("--settings")
        django.add_argument("--pythonpath")
        _, words = django.parse_known_args(argv[2:])
        self._main(words, prog_name=f"{Path(argv[0]).name} {argv[1]}")

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("words", nargs="*")

    def handle(self, *args: Any, words: list[str], **options: Any) -> None:
        """For call_command("mainspring", "stats")."""
        try:
            self._main(words, standalone_mode=False)
        except click.ClickException as bad:
            raise CommandError(bad.format_message()) from bad
        finally:
            run(get_app().__aenter__())  # the command has closed it, and this process goes on

    def _main(self, words: list[str], **given: Any) -> None:
        os.environ["MAINSPRING_APP"] = APP
        main(words, **given)
