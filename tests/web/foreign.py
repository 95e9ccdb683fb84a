"""The API in an ASGI server of another project: prints its port and serves until a signal."""

from __future__ import annotations

import socket

import uvicorn

from mainspring import Mainspring


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    app = Mainspring("memory://").asgi(auth=False)
    uvicorn.Server(uvicorn.Config(app, log_level="critical")).run([listener])


if __name__ == "__main__":
    main()
