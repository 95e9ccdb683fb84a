"""The `mainspring` command: imports the sub-command, and turns errors into one line and an exit code."""

from __future__ import annotations

import importlib
import io
import sys
from typing import Any

import click

from ..errors import MainspringError
from ..suggest import nearest_name
from .messages import Failed

__all__ = ["COMMANDS", "main"]

# The help page shows these without importing commands; a test compares them with the commands' own docstrings.
COMMANDS = {
    "audit": "List who changed what, newest first.",
    "batches": "List and show batches.",
    "cron": "Explain a cron expression and show its next runs.",
    "dead": "List dead jobs by error, and redrive them.",
    "demo": "Show real jobs running: an example shop on a temporary store.",
    "dev": "Run worker, API and dashboard together, and reload changed code.",
    "doctor": "Check the store, its workers and their jobs for problems.",
    "enqueue": "Enqueue a job of TASK and print its id.",
    "events": "Show events of all processes as they happen, until Ctrl-C.",
    "flows": "List, show, draw, check and change flows.",
    "import": "Import schedules from a crontab.",
    "jobs": "List, show and change jobs.",
    "keys": "Create, list and revoke API keys.",
    "limits": "List and change limits of tasks, and show who waits.",
    "migrate": "Upgrade or downgrade the store's schema.",
    "prune": "Delete finished jobs that are past their retention.",
    "queues": "List, pause and resume queues.",
    "schedules": "List, show and change schedules.",
    "server": "Serve dashboard, REST API and metrics until SIGTERM or Ctrl-C.",
    "settings": "List settings, where each value comes from, and what it does.",
    "stats": "Count jobs by state, and show how runs went.",
    "tasks": "List tasks: queue, options, schedules, and where the code is.",
    "top": "Watch queues, workers and jobs live.",
    "triggers": "Create, list and change triggers, which start jobs on messages.",
    "webhooks": "Create, list, test and change webhooks.",
    "why": "Explain why a job is not running, or where it runs.",
    "worker": "Run jobs until SIGTERM or Ctrl-C, then let them finish.",
    "workers": "List, resize, drain, resume and stop workers.",
}


# Commands whose name cannot be a module's name.
_MODULES = {"import": "importing"}


class LazyGroup(click.Group):
    """A group that imports the module of a command when it is called."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for word in args:
            if not word.isascii() and word != word.encode("utf-8", "replace").decode():
                raise click.UsageError(f"{word!r} is not UTF-8 text")
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = _MODULES.get(cmd_name, cmd_name)
        command: click.Command = getattr(importlib.import_module(f".{module}", __name__), module)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and (near := nearest_name(args[0], COMMANDS)):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except MainspringError as error:
            raise Failed(str(error)) from error
        except ExceptionGroup as group:
            ours, others = group.split(MainspringError)
            if ours is None or others is not None:
                raise
            raise Failed(str(_first_error(ours))) from group
        except KeyboardInterrupt:
            click.echo(err=True)
            ctx.exit(130)


def _first_error(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mainspring", prog_name="mainspring", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Durable background jobs for Python.

    Commands find their jobs through an app (--app module:attribute, or $MAINSPRING_APP) or directly in a
    store (--store URL, or $MAINSPRING_STORE).
    """
    # Job data may be any text: characters that the terminal cannot show become "?" instead of an error.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
