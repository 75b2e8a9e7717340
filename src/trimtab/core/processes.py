"""Processes to share work with, which leave Ctrl-C to the one that started them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from multiprocessing.process import BaseProcess
from typing import TypeVar

__all__ = ["Processes"]

Task = TypeVar("Task")
Done = TypeVar("Done")


class Processes:
    """Does work in so many processes, started when first needed; 0: one for each core, 1: this one alone.

    >>> with Processes(1) as share:
    ...     share(len, ["one", "three"])
    [3, 5]

    As a context it ends them, after an error (or Ctrl-C) without waiting for what they still do.
    """

    def __init__(self, count: int = 0) -> None:
        self.count = count or os.cpu_count() or 1
        self._pool: ProcessPoolExecutor | None = None
        self._children: list[BaseProcess] = []

    def __call__(self, work: Callable[[Task], Done], tasks: Sequence[Task]) -> list[Done]:
        """What comes of every task, in their order."""
        if self.count == 1:
            return list(map(work, tasks))
        # Not its `map`, which cancels what is left when Ctrl-C comes: on Python 3.11 a pool that loses its
        # processes trips over cancelled futures.
        return [done.result() for done in [self.pool.submit(work, task) for task in tasks]]

    @property
    def pool(self) -> ProcessPoolExecutor:
        """Fresh processes: a fork of a parent with threads, such as those of JAX, does not survive."""
        if self._pool is None:
            others = active_children()
            self._pool = ProcessPoolExecutor(self.count, mp_context=get_context("spawn"))
            with _interrupts_ignored():
                for _ in range(self.count):
                    self._pool.submit(int)  # starts a process, as none is idle yet; it inherits the ignoring
            self._children = [child for child in active_children() if child not in others]
        return self._pool

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._pool is None:
            return
        if kind is not None:
            for child in self._children:
                child.terminate()
        self._pool.shutdown(wait=True)


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
