"""mainspring worker: runs jobs until a signal, in one process or in several."""

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

from .. import config
from ..app import Mainspring
from ..errors import BadSetting
from ..events import JobEnded, WorkerStarted, WorkerStopped, WorkerStopping
from ..supervisor.channel import RECYCLED_EXIT_CODE, StatusMessage, SupervisorChannel
from ..supervisor.command_line import CommandLine, can_reload
from ..supervisor.supervisor import Supervisor
from ..supervisor.systemd import notify, notify_watchdog
from ..worker.worker import Worker
from .app_loader import app_name, load_app, store_name
from .event_loop import run
from .messages import log_option, log_to_stderr, note
from .worker_metrics import Address, ProcessCounters, supervise_with_metrics

_logger = logging.getLogger("mainspring")


def _parse_workers(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
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
    "--workers",
    metavar="N",
    callback=_parse_workers,
    help="Number of processes, or auto; each has --concurrency slots.",
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
    name, source = app_name(app, named)
    slots_by_queue = _parse_queues(queues)
    program, channel = CommandLine.current(), SupervisorChannel.from_environ()
    # The app reads this level while it is built, so it has to be set before.
    logging.getLogger("mainspring").setLevel((log_level or "info").upper())
    found = load_app(name, source)
    settings = found.settings
    log_to_stderr(log_level or settings.log_level, settings.log_format, None if channel is None else channel.number)
    if channel is not None:
        name = f"{found.settings.instance_id or socket.gethostname()}-{channel.number}"
        found.configure(instance_id=name)
    one = found.worker(queues=slots_by_queue, concurrency=concurrency, recycle=True)
    metrics = _metrics(found, host, port)
    slots = concurrency or found.settings.concurrency
    count = 1 if channel is not None else workers or found.settings.workers
    if count > 1:
        _supervise(found, Supervisor(program, count, grace=found.settings.grace, clock=found.clock), slots, metrics)
        return
    work = _work(found, one, f"queues {queues or 'all'}", slots, channel, metrics)
    run(work, goes_on=True, tune_gc=found.settings.tune_gc)
    if one.recycled is None or (one.stopped_by_operator and channel is None):
        return
    if channel is not None:
        raise click.exceptions.Exit(RECYCLED_EXIT_CODE)
    _logger.info("pid %d restarts: %s", os.getpid(), one.recycled)
    program.restart()


async def _work(
    app: Mainspring, worker: Worker, queues: str, slots: int, channel: SupervisorChannel | None, metrics: Address | None
) -> None:
    ended: Counter[str] = Counter()
    counters = None if metrics is None else ProcessCounters(app)
    app.events.subscribe(JobEnded, lambda event: ended.update([event.outcome.state.value]))
    tasks = sum(not task.stub for task in app.tasks.values())
    about = f"worker {worker.id} on {store_name(app)}: {queues}, {tasks} task{'s' * (tasks != 1)}, {slots} slots"
    app.events.subscribe(WorkerStarted, lambda event: click.echo(about))
    if channel is None:
        app.events.subscribe(WorkerStarted, lambda event: notify("READY=1"))
        app.events.subscribe(
            WorkerStopping,
            lambda event: None if worker.recycled and not worker.stopped_by_operator else notify("STOPPING=1"),
        )
    else:
        _follow_supervisor(app, worker, channel)
        # Before the worker removes its signal handlers: a signal after that ends the process at once.
        app.events.subscribe(
            WorkerStopped,
            lambda event: channel.send(StatusMessage(ended=dict(ended), counts=counters.take() if counters else None)),
        )
    if can_reload():
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: worker.recycle("SIGHUP"))
    async with app, nullcontext() if counters is None or metrics is None else counters.reported(channel, *metrics):
        guard = asyncio.create_task(notify_watchdog(app.clock))
        try:
            await worker.run()
        finally:
            guard.cancel()
    click.echo(f"worker {worker.id} stopped: {_counts_text(ended)}")


def _follow_supervisor(app: Mainspring, worker: Worker, channel: SupervisorChannel) -> None:
    """Stops the worker if its supervisor dies, and sends the supervisor status messages.

    SIGTERM counts once, however often it comes: a signal to the whole process group arrives here directly and, in any
    order, through the supervisor, which sends SIGINT for the second stage.
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
        channel.watch(gone)
        channel.send(StatusMessage(up=True))

    app.events.subscribe(WorkerStarted, started)
    app.events.subscribe(WorkerStopping, lambda event: channel.send(StatusMessage(recycling=worker.recycled or "")))


def _metrics(app: Mainspring, host: str | None, port: int | None) -> Address | None:
    """The address of the metrics; None if they are not served."""
    if port is None and not app.settings.metrics_port:
        return None
    return host or app.settings.metrics_host, app.settings.metrics_port if port is None else port


def _supervise(app: Mainspring, supervisor: Supervisor, slots: int, metrics: Address | None) -> None:
    if os.name == "nt":
        raise click.UsageError("--workers above 1 needs a system with signals: start one command for each process")
    click.echo(f"supervisor {os.getpid()} on {store_name(app)}: {supervisor.count} processes, {slots} slots each")
    asyncio.run(supervisor.run() if metrics is None else supervise_with_metrics(app, supervisor, *metrics))
    if supervisor.failure_code:
        note("error", "no process could start, for the reason above: giving up", "red")
        raise click.exceptions.Exit(supervisor.failure_code)
    click.echo(f"supervisor {os.getpid()} stopped: {_counts_text(supervisor.ended)}, in {supervisor.started} processes")


def _counts_text(ended: Mapping[str, int]) -> str:
    names = {"completed": "completed", "pending": "to run again", "dead": "dead", "cancelled": "cancelled"}
    return ", ".join(f"{ended.get(state, 0)} {name}" for state, name in names.items())


def _parse_queues(text: str | None) -> dict[str, int | None] | None:
    if text is None:
        return None
    queues: dict[str, int | None] = {}
    for part in text.split(","):
        name, equals, slots = (piece.strip() for piece in part.partition("="))
        if not name or (equals and not (slots.isascii() and slots.isdigit() and int(slots))):
            raise click.UsageError(f"--queues takes mail,low or mail=5,low; cannot read {part!r} in {text!r}")
        queues[name] = int(slots) if equals else None
    return queues
