"""How long an answer may take as a whole or, where only silence is bounded, its headers and each silence."""

from __future__ import annotations

import http.client
import socket

import pytest
from tests.loopback_server import HALF_A_HEAD, serving, trickling

from trimtab.rates.asking import open_address


def test_an_answer_is_read_whole() -> None:
    with serving(lambda path: [path]) as address, open_address(f"{address}/a", timeout_s=5) as answer:
        assert answer.read() == b'["/a"]'


def test_where_only_silence_is_bounded_a_body_may_take_longer() -> None:
    """Twelve pieces in 0.6 s, of 10,000 that were promised."""
    with (
        trickling(b"x", pieces=12) as address,
        open_address(address, timeout_s=0.3, only_silence=True) as answer,
        pytest.raises(http.client.IncompleteRead) as cut,
    ):
        answer.read()
    assert cut.value.partial == b"x" * 12


def test_headers_are_bounded_there_too() -> None:
    with trickling(b"x", head=HALF_A_HEAD) as address, pytest.raises(TimeoutError, match=r"after 0\.3 s"):
        open_address(address, timeout_s=0.3, only_silence=True)


def test_a_silence_is_told_as_such() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(TimeoutError, match="timed out"):
        open_address(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.2)
