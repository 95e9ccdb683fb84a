"""Stand-ins for everything the service calls over HTTP: a real server that pages, fails, throttles and is slow."""

import json
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit
from zlib import crc32

# The platform has a new clip every ten minutes; one in 40 comes without its creator.
CLIP_SECONDS = 600
SLOW_SECONDS = 8.0
THROTTLE_SECONDS = 2.0
Answer = tuple[int, dict[str, Any]]


class Fault(NamedTuple):
    """What happens to a request: a wait before it is answered, another status, or that status once all is done."""

    status: int = 200
    seconds: float = 0.0
    after: bool = False


class Request(NamedTuple):
    path: str
    query: dict[str, str]
    body: dict[str, Any]


class Partners:
    """The server. `trouble` is the share of requests that fail; a test plans faults with `fail()` and `slow()`."""

    def __init__(self, port: int = 0, *, trouble: float = 0.0, seed: int = 1) -> None:
        self.requests: Counter[str] = Counter()
        """Requests by the first part of their path."""
        self.charges: dict[str, bool] = {}
        """Whether a charge was paid, by its idempotency key."""
        self._trouble = trouble
        self._dice = random.Random(seed)
        self._planned: dict[str, deque[Fault]] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> str:
        """Serves from now on; returns the base URL."""
        self._thread.start()
        return self.url

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    # faults

    def fail(self, part: str, status: int = 503, times: int = 1) -> None:
        """The next requests for this part of the API get this status."""
        self._plan(part, Fault(status=status), times)

    def slow(self, part: str, seconds: float, times: int = 1) -> None:
        """The next requests for this part wait before they are answered."""
        self._plan(part, Fault(seconds=seconds), times)

    def lose(self, part: str, times: int = 1) -> None:
        """The next requests are carried out, and the answer is lost."""
        self._plan(part, Fault(status=502, after=True), times)

    def _plan(self, part: str, fault: Fault, times: int) -> None:
        self._planned.setdefault(part, deque()).extend([fault] * times)

    def _fault(self, part: str) -> Fault:
        if planned := self._planned.get(part):
            return planned.popleft()
        if self._dice.random() >= self._trouble:
            return Fault()
        return self._dice.choice([Fault(503), Fault(503), Fault(429), Fault(seconds=SLOW_SECONDS)])

    # answers

    def answer(self, method: str, target: str, body: dict[str, Any]) -> Answer:
        url = urlsplit(target)
        part = url.path.split("/")[1]
        with self._lock:
            self.requests[part] += 1
            fault = self._fault(part)
        time.sleep(fault.seconds)
        bad = fault.status, {"error": "planned trouble"}
        if fault.status != 200 and not fault.after:
            return bad
        route = ROUTES.get((method, part))
        if route is None:
            return 404, {"error": f"there is no {method} /{part}"}
        answer = route(self, Request(url.path, dict(parse_qsl(url.query)), body))
        return bad if fault.after else answer

    def clips(self, request: Request) -> Answer:
        """A page of the clips made from `since` to before `until`, oldest first."""
        since, until, page, size = (int(request.query[name]) for name in ("since", "until", "page", "size"))
        numbers = range(-(-since // CLIP_SECONDS), -(-until // CLIP_SECONDS))
        found = numbers[(page - 1) * size : page * size]
        return 200, {"clips": [_clip(number, until) for number in found], "more": page * size < len(numbers)}

    def live(self, request: Request) -> Answer:
        """Which of these creators are live; about one in five is, for an hour."""
        hour = int(request.body["at"]) // 3600
        logins: list[str] = request.body["logins"]
        return 200, {"live": [login for login in logins if (crc32(login.encode()) + hour) % 5 == 0]}

    def embeddings(self, request: Request) -> Answer:
        """A vector for each title, or an error for a title that cannot be read."""
        return 200, {"results": [_embedded(one) for one in request.body["inputs"]]}

    def cdn(self, request: Request) -> Answer:
        urls = {str(id): f"https://cdn.example/{id}?signature={crc32(str(id).encode())}" for id in request.body["ids"]}
        return 200, {"urls": urls, "seconds": 7 * 86_400}

    def storage(self, request: Request) -> Answer:
        """Takes a copy of a clip; the source of every 40th is gone."""
        clip = int(request.path.rpartition("/")[2])
        return (410, {"error": "the source is gone"}) if clip % 40 == 0 else (201, {"stored": clip})

    def payments(self, request: Request) -> Answer:
        """Charges once for each key; one card in three is declined."""
        key = str(request.body["key"])
        with self._lock:
            paid = self.charges.setdefault(key, int(request.body["subscription"]) // 10 % 3 != 0)
        return 200, {"paid": paid, "reason": None if paid else "the card was declined"}

    def hooks(self, request: Request) -> Answer:
        """The endpoint of a creator; every tenth is broken."""
        creator = int(request.path.rpartition("/")[2])
        return (500, {"error": "broken"}) if creator % 10 == 0 else (200, {})

    def mail(self, request: Request) -> Answer:
        return 202, {"state": "bounced" if crc32(request.body["to"].encode()) % 50 == 0 else "delivered"}


ROUTES: dict[tuple[str, str], Callable[[Partners, Request], Answer]] = {
    ("GET", "clips"): Partners.clips,
    ("POST", "live"): Partners.live,
    ("POST", "embeddings"): Partners.embeddings,
    ("POST", "cdn"): Partners.cdn,
    ("PUT", "storage"): Partners.storage,
    ("POST", "payments"): Partners.payments,
    ("POST", "hooks"): Partners.hooks,
    ("POST", "mail"): Partners.mail,
}


def _clip(number: int, now: int) -> dict[str, Any]:
    created_at = number * CLIP_SECONDS
    clip = {"id": f"clip-{number}", "title": f"Clip of {created_at}", "created_at": created_at}
    views = (now - created_at) // 60 * (1 + number % 7)
    return clip | ({} if number % 40 == 0 else {"creator": number, "views": views, "likes": views // 20})


def _embedded(one: dict[str, Any]) -> dict[str, Any]:
    if "unreadable" in one["title"]:
        return {"id": one["id"], "error": "the title cannot be read"}
    number = crc32(one["title"].encode())
    return {"id": one["id"], "vector": [(number >> 4 * n & 15) / 16 for n in range(8)]}


def _handler(partners: Partners) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # connections are kept
        wbufsize = -1  # the answer goes out in one piece
        disable_nagle_algorithm = True

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer = partners.answer(self.command, self.path, json.loads(body or b"{}"))
            data = json.dumps(answer).encode()
            self.send_response(status)
            if status == 429:
                self.send_header("Retry-After", f"{THROTTLE_SECONDS:.0f}")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = _answer

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
