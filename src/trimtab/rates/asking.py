"""Ask a server over HTTP, for no longer than one is willing to wait, however slowly it answers.

A time limit of urllib bounds each silence alone: a server that gives a byte now and then, of its headers or
of the body, would be listened to for ever. Here no wait for more outlasts the whole.
"""

from __future__ import annotations

import http.client
import io
import math
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.request import HTTPHandler, HTTPSHandler, ProxyHandler, build_opener

__all__ = ["open_address"]


def open_address(address: str, *, timeout_s: float, only_silence: bool = False) -> http.client.HTTPResponse:
    """Ask, without a proxy; the answer, headers and body, is there `timeout_s` from now or is a TimeoutError.

    With `only_silence` the body, once it has begun, may take longer as long as no silence does.
    """
    limit = _Limit(timeout_s)
    opener = build_opener(ProxyHandler({}), _Http(limit), _Https(limit))
    answer = opener.open(address, timeout=timeout_s)
    if only_silence:
        limit.lift()
    return answer


class _Limit:
    """What is left of the time for an answer."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._ends_s = time.monotonic() + timeout_s

    def lift(self) -> None:
        """From now on only silences are too long."""
        self._ends_s = math.inf

    @property
    def bounds_all(self) -> bool:
        """Whether the whole is bounded, not each silence alone."""
        return self._ends_s < math.inf

    def wait_s(self) -> float:
        """How long the next piece may take."""
        left_s = self._ends_s - time.monotonic()
        if left_s <= 0:
            raise self.passed()
        return min(left_s, self._timeout_s)

    def passed(self) -> TimeoutError:
        """What is raised when it is over."""
        return TimeoutError(f"not whole after {self._timeout_s:g} s")


class _Reader(io.RawIOBase):
    """What comes through a socket, each piece within what is left of the limit."""

    def __init__(self, connected: socket.socket, limit: _Limit) -> None:
        self._socket, self._limit = connected, limit
        self._raw = connected.makefile("rb", buffering=0)
        self._begun = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        self._socket.settimeout(self._limit.wait_s())
        try:
            count = self._raw.readinto(buffer)
        except TimeoutError:
            if self._begun and self._limit.bounds_all:
                raise self._limit.passed() from None
            raise
        self._begun = True
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    """An answer whose headers and body are read within a limit."""

    def __init__(self, connected: socket.socket, *arguments: Any, limit: _Limit, **settings: Any) -> None:
        super().__init__(connected, *arguments, **settings)
        self.fp.close()
        self.fp = io.BufferedReader(_Reader(connected, limit))


def _connecting(http_class: Callable[..., http.client.HTTPConnection], limit: _Limit) -> Callable[..., Any]:
    """Makes connections of this class, whose answers are read within a limit."""

    def connection(host: str, **settings: Any) -> http.client.HTTPConnection:
        made = http_class(host, **{**settings, "timeout": limit.wait_s()})
        made.response_class = partial(_Answer, limit=limit)  # pyright: ignore[reportAttributeAccessIssue]
        return made

    return connection


class _Http(HTTPHandler):
    def __init__(self, limit: _Limit) -> None:
        super().__init__()
        self._limit = limit

    def do_open(self, http_class: Any, req: Any, **settings: Any) -> Any:
        return super().do_open(_connecting(http_class, self._limit), req, **settings)


class _Https(HTTPSHandler):
    def __init__(self, limit: _Limit) -> None:
        super().__init__()
        self._limit = limit

    def do_open(self, http_class: Any, req: Any, **settings: Any) -> Any:
        return super().do_open(_connecting(http_class, self._limit), req, **settings)
