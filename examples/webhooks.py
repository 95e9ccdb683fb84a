"""Another server gets a message when a job dies, and verifies that we sent it.

Prints:
    told, and the signature holds: job.dead
    pay failed: ConnectionError: the bank does not answer
    a message that was changed on its way does not hold
"""

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from mainspring import Mainspring

logging.getLogger("mainspring").setLevel(logging.CRITICAL)
# Webhooks go to public addresses by https; any other address must be allowed.
app = Mainspring("memory://", webhook_allow="127.0.0.1")


@app.task(max_retries=0)
async def pay(order: int) -> None:
    raise ConnectionError("the bank does not answer")


def holds(secret: str, headers: dict[str, str], body: bytes) -> bool:
    """What a receiver does first: the Standard Webhooks signature, with nothing but the standard library."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    wanted = "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    # There are two while a secret is rotated. To refuse old messages, check the timestamp, too.
    return any(hmac.compare_digest(wanted, given) for given in headers["webhook-signature"].split())


class Receiver(BaseHTTPRequestHandler):
    secret = ""

    def do_POST(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers["content-length"]))
        good = holds(self.secret, headers, body)
        self.send_response(204 if good else 401)
        self.end_headers()
        if good:
            event = json.loads(body)
            error = event["data"]["error"]
            print(f"told, and the signature holds: {event['type']}")
            print(f"{event['data']['task']} failed: {error['type']}: {error['message']}")
        if not holds(self.secret, headers, body.replace(b"job.dead", b"job.fine")):
            print("a message that was changed on its way does not hold")

    def log_message(self, *_: object) -> None:
        pass


async def main() -> None:
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    serving = threading.Thread(target=server.serve_forever, args=(0.05,))
    serving.start()
    async with app:
        made = await app.webhooks.create("ops", f"http://127.0.0.1:{server.server_port}/", ["job.dead"])
        Receiver.secret = made.secret  # shown this once
        await pay.enqueue(order=7)
        await app.drain()  # runs the job, and then its delivery
    server.shutdown()
    serving.join()
    server.server_close()


if __name__ == "__main__":
    asyncio.run(main())
