"""A server on loopback that gives prepared answers: a fake Prometheus or JobManager."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answering = Callable[[str], Any]
"""From a path with its query to what becomes JSON, bytes as they are, or an int as a refusal."""

PROMISE = b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n"
HALF_A_HEAD = b"HTTP/1.1 200 OK\r\nX-Long: "
"""Headers that go on."""


@contextmanager
def serving(answering: Answering) -> Iterator[str]:
    """The address of a server that answers like this."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answering(self.path)
            if isinstance(answer, int):
                self.send_error(answer)
                return
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def trickling(piece: bytes, *, pieces: int = 200, head: bytes = PROMISE) -> Iterator[str]:
    """The address of a server that promises 10,000 bytes and gives some, one piece every 50 ms.

    Of a `head` that is not whole the pieces go on.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:

        def trickle() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.recv(10_000)
                connection.sendall(head)
                for _ in range(pieces):  # unless the other side gives up
                    connection.sendall(piece)
                    time.sleep(0.05)

        thread = threading.Thread(target=trickle)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()
