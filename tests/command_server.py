"""Runs `mainspring` commands, forked from one process with everything imported: a fifth of the CPU time of a new one.

`CommandServer().folder` has a program `mainspring` for PATH. It passes its arguments, environment, folder and open
files to the server, waits, and ends with the exit status of the command. Commands that run until they are stopped are
started as they are, since signals are sent to them.
"""

from __future__ import annotations

import array
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import mainspring.cli

ALONE = ("dev", "server", "worker", "top", "demo", "events")
PRELOADED = ("sqlite", "memory")
_CLIENT = """#!{python} -IS
import array, json, os, socket, sys
if set(sys.argv[1:2]) & set({alone!r}):
    os.execv({real!r}, [{real!r}, *sys.argv[1:]])
with socket.socket(socket.AF_UNIX) as line:
    line.connect({address!r})
    fds = array.array("i", [0, 1, 2])
    call = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    line.sendmsg([len(call).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
    line.sendall(call)
    said = line.recv(4)
sys.exit(int(said) if said else 70)
"""


class CommandServer:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mainspring-commands-"))
        address = str(self.folder / "socket")
        real = str(Path(sys.executable).with_name("mainspring"))
        client = self.folder / "mainspring"
        client.write_text(_CLIENT.format(python=sys.executable, alone=ALONE, real=real, address=address))
        client.chmod(0o755)
        self._process = subprocess.Popen(
            [sys.executable, __file__, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def close(self) -> None:
        self._process.communicate(timeout=20)  # it ends with its input
        shutil.rmtree(self.folder)


# the server


def _receive(line: socket.socket) -> tuple[list[str], str, dict[str, str], list[int]]:
    size, more, _, _ = line.recvmsg(4, socket.CMSG_SPACE(3 * array.array("i").itemsize))
    fds = array.array("i")
    fds.frombytes(more[0][2])
    left, text = int.from_bytes(size, "big"), b""
    while len(text) < left:
        text += line.recv(left - len(text))
    arguments, folder, environ = json.loads(text)
    return arguments, folder, environ, list(fds)


def _run(line: socket.socket) -> None:
    """Runs one command in this process, which ends with it."""
    arguments, folder, environ, fds = _receive(line)
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = ["mainspring", *arguments]
    sys.path[0] = str(Path(sys.executable).parent)
    status: object = 0
    try:
        mainspring.cli.main()
    except SystemExit as end:
        status = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    line.sendall(str(status if isinstance(status, int) else 0 if status is None else 1).encode())
    os._exit(0)


def serve(address: str) -> None:
    """Serves until its input ends."""
    for name in [*(f"mainspring.stores.{name}.store" for name in PRELOADED), *_commands()]:
        import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended commands leave no zombies
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(address)
        door.listen(8)
        print("ready", flush=True)
        while sys.stdin not in select.select([door, sys.stdin], [], [])[0]:
            line, _ = door.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                door.close()
                _run(line)
            line.close()


def _commands() -> list[str]:
    return [f"mainspring.cli.{path.stem}" for path in Path(mainspring.cli.__file__).parent.glob("[a-z]*.py")]


if __name__ == "__main__":
    serve(sys.argv[1])
