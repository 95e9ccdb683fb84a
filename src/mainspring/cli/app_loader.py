"""Loads the app, or only the store, that a command works on."""

from __future__ import annotations

import asyncio
import difflib
import functools
import getpass
import importlib
import os
import socket
import sys
import traceback
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from ..actor import act_as
from ..app import Mainspring
from ..errors import MainspringError
from ..health import STORE_TIMEOUT_SECONDS
from .messages import Failed, redacted

NO_APP = "which jobs? Give --app module:attribute or --store URL, or set $MAINSPRING_APP or $MAINSPRING_STORE"
# Files whose frames are left out of the traceback of a failed import.
_MACHINERY = ("<frozen importlib", os.path.join("importlib", "__init__.py"), __file__)
_MAX_FRAMES = 4
_PACKAGE = str(Path(__file__).parents[1])
Command = Callable[..., Coroutine[Any, Any, None]]


def with_app(command: Command) -> Callable[..., None]:
    """A command with --app and --store that runs inside the opened app."""

    async def inside(app: Mainspring, **given: Any) -> None:
        async with app:
            await command(app, **given)

    return _with_options(command, inside)


def with_any_app(command: Command) -> Callable[..., None]:
    """Like with_app, for a command that also works if the store cannot be opened."""

    async def inside(app: Mainspring, **given: Any) -> None:
        with suppress(MainspringError, TimeoutError):
            async with asyncio.timeout(STORE_TIMEOUT_SECONDS):
                await app.__aenter__()
        try:
            await command(app, **given)
        finally:
            await app.close()

    return _with_options(command, inside)


def with_closed_app(command: Command) -> Callable[..., None]:
    """Like with_app, for a command that opens the app itself, or does not need it open."""
    return _with_options(command, command)


def _with_options(command: Command, inside: Command) -> Callable[..., None]:
    @click.option("--app", "named", metavar="MODULE:ATTR", help="The app, e.g. shop:app [$MAINSPRING_APP].")
    @click.option("--store", metavar="URL", help="Only a store, without an app's code [$MAINSPRING_STORE].")
    @functools.wraps(command)
    def run(named: str | None, store: str | None, **given: Any) -> None:
        app = find_app(named, store)
        with act_as(current_user()):
            asyncio.run(inside(app, **given))

    return run


def current_user() -> str:
    """The user of this command, as recorded in the audit log."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in many containers
        user = str(os.getuid())
    return f"cli:{user}@{socket.gethostname()}"


def find_app(named: str | None, store: str | None) -> Mainspring:
    """The app of --app or --store, else of $MAINSPRING_APP, else on the store of $MAINSPRING_STORE."""
    if named and store:
        raise click.UsageError("an app brings its own store: give --app or --store, not both")
    if named:
        return load_app(named)
    if store:
        return Mainspring(store)
    if name := os.environ.get("MAINSPRING_APP", "").strip():
        return load_app(name, " (from $MAINSPRING_APP)")
    if os.environ.get("MAINSPRING_STORE", "").strip():
        return Mainspring()
    raise click.UsageError(NO_APP)


def app_name(argument: str | None, option: str | None) -> tuple[str, str]:
    """The name of the app, and where it comes from if not from the command line. For commands that need an app."""
    if argument and option and argument != option:
        raise click.UsageError(f"two apps are named, {argument} and {option}: give one")
    if name := argument or option:
        return name, ""
    if variable := os.environ.get("MAINSPRING_APP", "").strip():
        return variable, " (from $MAINSPRING_APP)"
    raise click.UsageError("which app? Give module:attribute, e.g. shop:app, or set $MAINSPRING_APP")


def store_name(app: Mainspring) -> str:
    """The URL of the store, without its password."""
    return redacted(app.settings.store)


def load_app(name: str, source: str = "") -> Mainspring:
    """Imports module:attribute, with the current directory on the path.

    Raises UsageError or Failed, with advice, if that is not a Mainspring.
    """
    module, _, attribute = name.partition(":")
    if os.sep in module or module.endswith(".py"):
        dotted = ".".join(Path(module).with_suffix("").parts)
        raise click.UsageError(f"app {name!r}{source} is a path: write {dotted}:{attribute or 'app'}")
    if not module or not attribute:
        raise click.UsageError(f"app {name!r}{source} must be module:attribute, e.g. {module or 'shop'}:app")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    loaded = _import(module, source)
    found: Any = loaded
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise Failed(f"module {module!r} has no {attribute!r}{source}{_suggestion(loaded)}")
        found = getattr(found, part)
    if not isinstance(found, Mainspring):
        raise Failed(f"{name} is a {type(found).__name__}, not a Mainspring{source}{_suggestion(loaded)}")
    return found


def _import(name: str, source: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise Failed(f"there is no module {name!r} in {os.getcwd()}{source}{_similar_module(name)}") from None
        raise _import_failed(name, error) from None
    except (Exception, SystemExit) as error:
        raise _import_failed(name, error) from None


def _similar_module(name: str) -> str:
    here = Path.cwd()
    modules = [file.stem for file in here.glob("*.py")] + [file.parent.name for file in here.glob("*/__init__.py")]
    near = difflib.get_close_matches(name, modules, 1)
    return f"; did you mean {near[0]!r}?" if near else "; run this in the directory that holds it"


def _import_failed(name: str, error: BaseException) -> Failed:
    ours = isinstance(error, MainspringError)  # its message is enough: frames of our own code are left out
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_MACHINERY[0], *([_PACKAGE] if ours else [])))
        and not frame.filename.endswith(_MACHINERY[1:])
    ]
    *where, last = traceback.format_exception_only(error)
    reason = f": {error}" if ours else f" raised {last.strip()}"
    return Failed(f"importing {name!r}{reason}", "".join([*traceback.format_list(frames[-_MAX_FRAMES:]), *where]))


def _suggestion(module: ModuleType) -> str:
    apps = [name for name, value in vars(module).items() if isinstance(value, Mainspring)]
    if len(apps) == 1:
        return f"; did you mean {module.__name__}:{apps[0]}?"
    return f"; it has: {', '.join(apps)}" if apps else "; it has no Mainspring at all"
