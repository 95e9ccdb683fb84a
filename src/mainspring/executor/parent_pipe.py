"""The connection of a child process to its worker."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections import deque
from collections.abc import Iterator
from itertools import count

from msgspec import Struct

from ..errors import BadInput
from .interrupts import Interrupts
from .protocol import Answer, Frames, Question, RunRequest, frame, requests

_CHUNK_BYTES = 2**18
# How long a thread waits before it looks whether another one has received its answer.
_WAIT_MILLISECONDS = 50


class ParentPipe:
    """The connection to the worker. Any thread may send, and ask."""

    def __init__(self, connection: socket.socket, interrupts: Interrupts) -> None:
        self._socket = connection
        self._interrupts = interrupts
        self._writing, self._reading = threading.Lock(), threading.Lock()
        self._frames = Frames()
        self._requests: deque[RunRequest] = deque()
        self._answers: dict[int, Answer | None] = {}
        """What threads wait for. None: it has not come."""
        self._numbers = count(1)
        self._has_ended = False
        self._process = os.getpid()
        self.run = 1
        """The number of the run under way."""

    def send(self, message: Struct, run: int | None = None) -> None:
        """Raises BadInput if another run than this one is under way, to which the worker would take it to belong."""
        data = frame(message)
        if threading.current_thread() is not threading.main_thread():
            self._write(data, run)
        else:
            with self._interrupts:  # half a message would garble all later ones
                self._write(data, run)

    def _write(self, data: bytes, run: int | None) -> None:
        with self._writing:
            if run not in (None, self.run):
                raise BadInput("durable steps end with their run, and this one has ended")
            self._socket.sendall(data)

    def end_run(self) -> None:
        with self._writing:
            self.run += 1

    def requests(self) -> Iterator[RunRequest]:
        """Yields requests until the worker hangs up."""
        while self._requests or not self._has_ended:
            if self._requests:
                yield self._requests.popleft()
            else:
                self._receive()
        self._socket.close()

    def number(self) -> int:
        """The number of the next question: answers to those of earlier runs are told apart."""
        return next(self._numbers)

    def ask(self, question: Question, run: int) -> Answer:
        """Waits for the answer. The wait can be interrupted."""
        if os.getpid() != self._process:
            raise BadInput("durable steps are for the task's own process, not for one that it has forked")
        n = question.n
        self._answers[n] = None
        try:
            self.send(question, run)
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            while (answer := self._answers[n]) is None:
                if self._has_ended:
                    raise ConnectionError("the worker is gone")
                poll.poll(_WAIT_MILLISECONDS)
                self._receive_ready()
            return answer
        finally:
            del self._answers[n]

    def _receive_ready(self) -> None:
        """Receives what there is, if anything."""
        if threading.current_thread() is not threading.main_thread():
            self._receive(socket.MSG_DONTWAIT)
        else:
            with self._interrupts:  # what was received would be lost
                self._receive(socket.MSG_DONTWAIT)

    def _receive(self, flags: int = 0) -> None:
        with self._reading:
            try:
                data = self._socket.recv(_CHUNK_BYTES, flags)
            except BlockingIOError:
                return
            self._has_ended = not data
            for message in self._frames.feed(data):
                received = requests.decode(message)
                if isinstance(received, RunRequest):
                    self._requests.append(received)
                elif received.n in self._answers:
                    self._answers[received.n] = received
