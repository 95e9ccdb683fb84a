"""Finds the app, or only the store, that a command is about."""

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
from .failure import Failed
from .text import redacted

NOTHING = "which jobs? Give --app module:attribute or --store URL, or set $MAINSPRING_APP or $MAINSPRING_STORE"
# Frames of a failed import that belong to the machinery, not to the user.
_MACHINERY = ("<frozen importlib", os.path.join("importlib", "__init__.py"), __file__)
_TAIL = 4
_PACKAGE = str(Path(__file__).parents[1])
Command = Callable[..., Coroutine[Any, Any, None]]


def with_app(command: Command) -> Callable[..., None]:
    """A command with --app and --store that runs inside the opened app."""

    async def inside(app: Mainspring, **given: Any) -> None:
        async with app:
            await command(app, **given)

    return _choosing(command, inside)


def with_any_app(command: Command) -> Callable[..., None]:
    """As with_app, for a command that has something to say even if the store cannot be opened."""

    async def inside(app: Mainspring, **given: Any) -> None:
        with suppress(MainspringError, TimeoutError):
            async with asyncio.timeout(STORE_TIMEOUT_SECONDS):
                await app.__aenter__()
        try:
            await command(app, **given)
        finally:
            await app.close()

    return _choosing(command, inside)


def with_closed_app(command: Command) -> Callable[..., None]:
    """As with_app, for a command that opens it by itself, or has no need to."""
    return _choosing(command, command)


def _choosing(command: Command, inside: Command) -> Callable[..., None]:
    @click.option("--app", "named", metavar="MODULE:ATTR", help="The app, e.g. shop:app [$MAINSPRING_APP].")
    @click.option("--store", metavar="URL", help="Only a store, without an app's code [$MAINSPRING_STORE].")
    @functools.wraps(command)
    def run(named: str | None, store: str | None, **given: Any) -> None:
        app = find(named, store)
        with act_as(operator()):
            asyncio.run(inside(app, **given))

    return run


def operator() -> str:
    """Whoever runs this command, as the audit trail has it."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in many containers
        user = str(os.getuid())
    return f"cli:{user}@{socket.gethostname()}"


def find(named: str | None, store: str | None) -> Mainspring:
    """Options before variables, and among variables the app before the store, which it may well use."""
    if named and store:
        raise click.UsageError("an app brings its own store: give --app or --store, not both")
    if named:
        return load(named)
    if store:
        return Mainspring(store)
    if name := os.environ.get("MAINSPRING_APP", "").strip():
        return load(name, " (from $MAINSPRING_APP)")
    if os.environ.get("MAINSPRING_STORE", "").strip():
        return Mainspring()
    raise click.UsageError(NOTHING)


def named_app(argument: str | None, option: str | None) -> tuple[str, str]:
    """Which app a command that needs one is for, and where that was said if not on the command line."""
    if argument and option and argument != option:
        raise click.UsageError(f"two apps are named, {argument} and {option}: give one")
    if given := argument or option:
        return given, ""
    if variable := os.environ.get("MAINSPRING_APP", "").strip():
        return variable, " (from $MAINSPRING_APP)"
    raise click.UsageError("which app? Give module:attribute, e.g. shop:app, or set $MAINSPRING_APP")


def place(app: Mainspring) -> str:
    """The store, as it may be shown."""
    return redacted(app.settings.store)


def load(name: str, source: str = "") -> Mainspring:
    """The Mainspring that module:attribute names, with the current directory on the path."""
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
            raise Failed(f"module {module!r} has no {attribute!r}{source}{_instead(loaded)}")
        found = getattr(found, part)
    if not isinstance(found, Mainspring):
        raise Failed(f"{name} is a {type(found).__name__}, not a Mainspring{source}{_instead(loaded)}")
    return found


def _import(name: str, source: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise Failed(f"there is no module {name!r} in {os.getcwd()}{source}{_similar(name)}") from None
        raise _raised(name, error) from None
    except (Exception, SystemExit) as error:
        raise _raised(name, error) from None


def _similar(name: str) -> str:
    here = Path.cwd()
    modules = [file.stem for file in here.glob("*.py")] + [file.parent.name for file in here.glob("*/__init__.py")]
    near = difflib.get_close_matches(name, modules, 1)
    return f"; did you mean {near[0]!r}?" if near else "; run this in the directory that holds it"


def _raised(name: str, error: BaseException) -> Failed:
    ours = isinstance(error, MainspringError)  # whose message says it all; where in our code it was raised, nothing
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_MACHINERY[0], *([_PACKAGE] if ours else [])))
        and not frame.filename.endswith(_MACHINERY[1:])
    ]
    *where, what = traceback.format_exception_only(error)
    said = f": {error}" if ours else f" raised {what.strip()}"
    return Failed(f"importing {name!r}{said}", "".join([*traceback.format_list(frames[-_TAIL:]), *where]))


def _instead(module: ModuleType) -> str:
    apps = [name for name, value in vars(module).items() if isinstance(value, Mainspring)]
    if len(apps) == 1:
        return f"; did you mean {module.__name__}:{apps[0]}?"
    return f"; it has: {', '.join(apps)}" if apps else "; it has no Mainspring at all"
