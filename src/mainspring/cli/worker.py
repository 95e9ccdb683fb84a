"""mainspring worker: runs jobs until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext

import click
from msgspec.structs import replace

from .. import config
from ..app import Mainspring
from ..errors import BadSetting
from ..events import JobEnded, WorkerStarted, WorkerStopped, WorkerStopping
from ..supervisor.channel import RECYCLED, StatusMessage, SupervisorChannel
from ..supervisor.command_line import CommandLine, can_reload
from ..supervisor.supervisor import Supervisor
from ..supervisor.systemd import notify, watchdog
from ..worker.worker import Worker
from .failure import note
from .loading import load, named_app, place
from .loop import run
from .stderr import log_option, log_to_stderr
from .worker_metrics import Address, ProcessFigures, supervise

_logger = logging.getLogger("mainspring")


def _processes(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    try:
        return None if value is None else config.read_workers(value, "--workers")
    except BadSetting as bad:
        raise click.UsageError(str(bad), ctx) from None


@click.command()
@click.argument("app", required=False)
@click.option("--app", "named", metavar="MODULE:ATTR", help="The same as APP.")
@click.option("--queues", metavar="LIST", help="Only these queues: mail,low. With a limit each: mail=5,low.")
@click.option("--concurrency", type=click.IntRange(1), metavar="N", help="Slots: how many jobs run at once.")
@click.option(
    "--workers", metavar="N", callback=_processes, help="Number of processes, or auto; each has --concurrency slots."
)
@click.option(
    "--metrics",
    "port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve metrics on this port; 0: any free port.",
)
@click.option("--metrics-host", "host", metavar="HOST", help="Default: 127.0.0.1, or the app's metrics_host.")
@log_option
def worker(
    app: str | None,
    named: str | None,
    queues: str | None,
    concurrency: int | None,
    workers: int | None,
    port: int | None,
    host: str | None,
    log_level: str | None,
) -> None:
    """Run jobs until SIGTERM or Ctrl-C, then let them finish.

    APP is module:attribute, e.g. shop:app; default: $MAINSPRING_APP. A second signal does not wait for running
    jobs: they are released, and other workers run them.
    """
    name, source = named_app(app, named)
    wanted = _queues(queues)
    program, line = CommandLine.this(), SupervisorChannel.grasp()
    # The app looks at this level while it is built: too late to set it afterwards.
    logging.getLogger("mainspring").setLevel((log_level or "info").upper())
    found = load(name, source)
    settings = found.settings
    log_to_stderr(log_level or settings.log_level, settings.log_format, None if line is None else line.number)
    if line is not None:
        name = f"{found.settings.instance_id or socket.gethostname()}-{line.number}"
        found.settings = replace(found.settings, instance_id=name)
    one, metrics = found.worker(queues=wanted, concurrency=concurrency, recycle=True), _metrics(found, host, port)
    slots = concurrency or found.settings.concurrency
    count = 1 if line is not None else workers or found.settings.workers
    if count > 1:
        _supervise(found, Supervisor(program, count, grace=found.settings.grace, clock=found.clock), slots, metrics)
        return
    run(_work(found, one, f"queues {queues or 'all'}", slots, line, metrics), goes_on=True)
    if one.recycled is None or (one.dismissed and line is None):
        return
    if line is not None:
        raise click.exceptions.Exit(RECYCLED)
    _logger.info("pid %d starts anew: %s", os.getpid(), one.recycled)
    program.restart()


async def _work(
    app: Mainspring, worker: Worker, queues: str, slots: int, line: SupervisorChannel | None, metrics: Address | None
) -> None:
    ended: Counter[str] = Counter()
    figures = None if metrics is None else ProcessFigures(app)
    app.events.subscribe(JobEnded, lambda event: ended.update([event.outcome.state.value]))
    tasks = sum(not task.stub for task in app.tasks.values())
    about = f"worker {worker.id} on {place(app)}: {queues}, {tasks} task{'s' * (tasks != 1)}, {slots} slots"
    app.events.subscribe(WorkerStarted, lambda event: click.echo(about))
    if line is None:
        app.events.subscribe(WorkerStarted, lambda event: notify("READY=1"))
        app.events.subscribe(
            WorkerStopping, lambda event: None if worker.recycled and not worker.dismissed else notify("STOPPING=1")
        )
    else:
        _obey(app, worker, line)
        # Before the worker lets go of the signals: one that comes after that ends the process without a word.
        app.events.subscribe(
            WorkerStopped,
            lambda event: line.say(StatusMessage(ended=dict(ended), counts=figures.take() if figures else None)),
        )
    if can_reload():
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: worker.recycle("SIGHUP"))
    async with app, nullcontext() if figures is None or metrics is None else figures.kept(line, *metrics):
        guard = asyncio.create_task(watchdog(app.clock))
        try:
            await worker.run()
        finally:
            guard.cancel()
    click.echo(f"worker {worker.id} stopped: {_tally(ended)}")


def _obey(app: Mainspring, worker: Worker, line: SupervisorChannel) -> None:
    """A supervised worker also stops when its supervisor is gone, and tells it how it is doing.

    SIGTERM is taken as said once, however often it comes: whoever signals a whole group of processes reaches
    this one directly and through its supervisor, which sends SIGINT for the second stage. Either may be heard first.
    """
    loop, stops = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    def stop(grace: float | None = None) -> None:
        stops.add(task := asyncio.create_task(worker.stop(grace=grace)))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    def gone() -> None:
        _logger.warning("the supervisor is gone: stopping")
        stop()

    def started(event: WorkerStarted) -> None:
        loop.add_signal_handler(signal.SIGTERM, stop)
        loop.add_signal_handler(signal.SIGINT, stop, 0.0)
        line.watch(gone)
        line.say(StatusMessage(up=True))

    app.events.subscribe(WorkerStarted, started)
    app.events.subscribe(WorkerStopping, lambda event: line.say(StatusMessage(recycling=worker.recycled or "")))


def _metrics(app: Mainspring, host: str | None, port: int | None) -> Address | None:
    """Where metrics are served; None: nobody has asked for them."""
    if port is None and not app.settings.metrics_port:
        return None
    return host or app.settings.metrics_host, app.settings.metrics_port if port is None else port


def _supervise(app: Mainspring, supervisor: Supervisor, slots: int, metrics: Address | None) -> None:
    if os.name == "nt":
        raise click.UsageError("--workers above 1 needs a system with signals: start one command for each process")
    click.echo(f"supervisor {os.getpid()} on {place(app)}: {supervisor.count} processes, {slots} slots each")
    asyncio.run(supervisor.run() if metrics is None else supervise(app, supervisor, *metrics))
    if supervisor.failed:
        note("error", "no process got to work, for the reason above: not trying again", "red")
        raise click.exceptions.Exit(supervisor.failed)
    click.echo(f"supervisor {os.getpid()} stopped: {_tally(supervisor.ended)}, in {supervisor.started} processes")


def _tally(ended: Mapping[str, int]) -> str:
    words = {"completed": "completed", "pending": "to run again", "dead": "dead", "cancelled": "cancelled"}
    return ", ".join(f"{ended.get(state, 0)} {word}" for state, word in words.items())


def _queues(text: str | None) -> dict[str, int | None] | None:
    if text is None:
        return None
    wanted: dict[str, int | None] = {}
    for part in text.split(","):
        name, equals, slots = (piece.strip() for piece in part.partition("="))
        if not name or (equals and not (slots.isascii() and slots.isdigit() and int(slots))):
            raise click.UsageError(f"--queues takes mail,low or mail=5,low; cannot read {part!r} in {text!r}")
        wanted[name] = int(slots) if equals else None
    return wanted
