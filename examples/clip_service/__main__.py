"""One command starts it all: python -m clip_service."""

import argparse
import asyncio
import os
import socket
import time
from contextlib import suppress
from datetime import timedelta

import uvicorn

from .partners import Partners
from .seed import CLIPS, seed
from .settings import settings


def main() -> None:
    options = _options()
    if options.url:
        os.environ["CLIP_SERVICE_URL"] = options.url
    if options.no_worker:
        os.environ["CLIP_SERVICE_WORKER"] = "no"
    listener = _listener(options.port)
    partners = Partners(options.partners_port, trouble=options.trouble)
    os.environ["CLIP_SERVICE_PARTNERS"] = partners.start()
    began = time.perf_counter()
    if seed(int(time.time()), options.clips):
        print(f"Filled {_shown()} with {options.clips:,} clips in {time.perf_counter() - began:.1f} s")
    print(f"Partners (stand-ins; {options.trouble:.0%} of the calls fail): {settings().partners}")
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    key = asyncio.run(_new_key())
    print(f"Service: {origin}/trending, {origin}/incidents, {origin}/metrics, {origin}/docs")
    print(f"Dashboard: {origin}/ops/#token={key} (it signs you in, for twelve hours)")
    print("Ctrl-C stops it; its jobs go on when it is started again.", flush=True)
    try:
        with suppress(KeyboardInterrupt):  # the server has stopped in good order by then
            _serve(listener)
        print("Stopped. What was running has ended, or will run again.")
    finally:
        partners.stop()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m clip_service", description="A clip service and its jobs.")
    parser.add_argument("--url", help="sqlite:///clips.db (default) or postgresql://user:password@host/name")
    parser.add_argument("--port", type=int, default=8000, help="default: 8000; 0 is any that is free")
    parser.add_argument("--partners-port", type=int, default=0, help="of the stand-ins; default: any that is free")
    parser.add_argument("--clips", type=int, default=CLIPS, help=f"to fill an empty database with; default: {CLIPS:,}")
    parser.add_argument("--trouble", type=float, default=0.05, help="share of calls to partners that fail")
    parser.add_argument(
        "--no-worker", action="store_true", help="jobs run elsewhere: mainspring worker clip_service.tasks:app"
    )
    return parser.parse_args()


def _listener(port: int) -> socket.socket:
    """Taken first of all: a port that is in use is found out before a database is filled."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise SystemExit(
            f"error: port {port} cannot be used ({error.strerror}); choose another one: --port 8010"
        ) from None


def _shown() -> str:
    from sqlalchemy import make_url

    return make_url(settings().url).render_as_string(hide_password=True)


async def _new_key() -> str:
    """An API key for the dashboard; that of the last start is void."""
    from .tasks import app

    async with app:
        for key in await app.keys.list():
            if key.name == "console":
                await app.keys.revoke("console")
        return await app.keys.create("console", "admin", expires=timedelta(hours=12))


def _serve(listener: socket.socket) -> None:
    from .web import web

    uvicorn.Server(uvicorn.Config(web, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main()
