"""Processes to share work with, which leave Ctrl-C to the one that started them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

__all__ = ["started_pool"]


def started_pool(processes: int) -> ProcessPoolExecutor:
    """Fresh processes: a fork of a parent with threads, such as those of JAX, does not survive.

    >>> with started_pool(1) as pool:
    ...     pool.submit(len, "three").result()
    5
    """
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
    with _interrupts_ignored():
        for _ in range(processes):
            pool.submit(int)  # starts a process, as none is idle yet; it inherits the ignoring
    return pool


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
