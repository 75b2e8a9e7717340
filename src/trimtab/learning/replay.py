"""Experience to learn from again: plain numpy rings of steps, drawn as single steps or as windows in time.

A step is one row of numbers, its fields side by side, so that a batch is one gather on the host and one
upload to the device. A replay has lanes, one per environment; the steps of a lane follow each other in time::

              lane 0   lane 1   lane 2
    step 0      x        x        x         the oldest; overwritten next once the ring is full
    step 1      x        x        x
    ...

Logs of other controllers are replays too: several logs end to end may share one lane, each with `renewed` in
its last step, since nothing of one system tells about the next.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import SettingsError, TrimtabError

__all__ = ["Layout", "Replay", "Source", "Steps", "Windows", "drawn_rows", "drawn_windows"]


class Steps(NamedTuple):
    """Fields of steps; each is [..., size], flags and rewards with size 1."""

    observation: Any
    action: Any
    reward: Any
    ended: Any
    """1 where an episode ended with this step, for whatever reason."""
    renewed: Any
    """1 where what comes next is another system: what was learned about this one is void."""
    next_observation: Any
    """What the step led to, before any new episode."""
    terminated: Any
    """1 where nothing was to follow: the value of what comes next is 0."""
    guide: Any
    """What a teacher would have done."""
    guided: Any
    """1 where there is such a teacher."""
    privileged: Any
    """What only a simulator knows."""


class Windows(NamedTuple):
    """Consecutive steps of several lanes, time before lanes.

    `past` [..., time, windows, token + 2] holds tokens, `renewed`, and whether there was such a step at all;
    `rows` [..., trained, windows, columns] are the last of these steps, whole.
    """

    past: Any
    rows: Any


@dataclass(frozen=True)
class Layout:
    """Which columns of a row are which field.

    >>> layout = Layout(observation=4, actions=2)
    >>> layout.token, layout.columns
    (8, 17)
    >>> layout.split(np.zeros((5, 17), np.float32)).next_observation.shape
    (5, 4)
    """

    observation: int
    actions: int
    privileged: int = 0

    @property
    def sizes(self) -> Steps:
        """How many columns each field has, in the order of the columns."""
        seen, acts = self.observation, self.actions
        return Steps(seen, acts, 1, 1, 1, seen, 1, acts, 1, self.privileged)

    @property
    def columns(self) -> int:
        return sum(self.sizes)

    @property
    def token(self) -> int:
        """The first columns, observation to `ended`: what a context encoder reads of a step."""
        return self.observation + self.actions + 2

    def split(self, rows: Any) -> Steps:
        """Rows of numpy or of JAX as fields."""
        ends = np.cumsum(self.sizes)
        return Steps(*(rows[..., end - size : end] for size, end in zip(self.sizes, ends, strict=True)))

    def joined(self, steps: Steps) -> NDArray[np.float32]:
        """Fields as rows; refuse what has another size than it should."""
        parts = [np.asarray(part, np.float32) for part in steps]
        for name, part, size in zip(Steps._fields, parts, self.sizes, strict=True):
            if part.shape[-1] != size:
                raise TrimtabError(f"{name} of a step has {part.shape[-1]} numbers where {size} belong")
        return np.concatenate(parts, axis=-1)


class Replay:
    """A ring of the last steps of some lanes.

    >>> replay = Replay(Layout(observation=1, actions=1), lanes=2, capacity=6)
    >>> for step in range(5):
    ...     replay.add(np.full((2, replay.layout.columns), step))
    >>> len(replay), replay.in_order()[:, 0, 0].tolist()
    (6, [2.0, 3.0, 4.0])
    """

    def __init__(self, layout: Layout, *, lanes: int, capacity: int) -> None:
        if capacity < lanes:
            raise SettingsError(f"a replay of {capacity} steps for {lanes} environments; raise capacity")
        self.layout, self.lanes = layout, lanes
        # Pages nothing was written to yet take no memory.
        self._ring = np.zeros((capacity // lanes, lanes, layout.columns), np.float32)
        self._next, self._filled = 0, 0

    @staticmethod
    def of(layout: Layout, rows: NDArray[Any]) -> "Replay":
        """A log: rows [time, lanes, columns], which fill it."""
        if rows.ndim != 3 or rows.shape[-1] != layout.columns or not rows.size:
            raise TrimtabError(
                f"a log of shape {list(rows.shape)} where [time, lanes, {layout.columns}] belongs; "
                "make its rows with Layout.joined"
            )
        replay = Replay(layout, lanes=rows.shape[1], capacity=rows.shape[0] * rows.shape[1])
        replay._ring[:] = rows
        replay._filled = len(rows)
        return replay

    def __len__(self) -> int:
        return self._filled * self.lanes

    @property
    def steps(self) -> int:
        """How many steps of each lane it holds."""
        return self._filled

    def add(self, rows: NDArray[Any]) -> None:
        """One more step of every lane: [lanes, columns]."""
        self._ring[self._next] = rows
        self._next = (self._next + 1) % len(self._ring)
        self._filled = min(self._filled + 1, len(self._ring))

    def cut(self) -> None:
        """Say that all environments begin anew: the last steps have no successors."""
        if self._filled:
            self.layout.split(self._ring[self._next - 1]).renewed[:] = 1

    def in_order(self) -> NDArray[np.float32]:
        """All steps, oldest first: [time, lanes, columns]."""
        return self._ring[self._places(np.arange(self._filled))]

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All it holds, to be written to a file."""
        return {"replay/rows": self.in_order()}

    def take(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Hold what `tensors` gave, and nothing else."""
        rows = tensors["replay/rows"]
        if rows.shape[1:] != self._ring.shape[1:] or len(rows) > len(self._ring):
            raise TrimtabError(
                f"a replay of shape {list(rows.shape)} does not fit into {list(self._ring.shape)}; "
                "it was made by another task or other settings"
            )
        self._ring[: len(rows)] = rows
        self._next, self._filled = len(rows) % len(self._ring), len(rows)

    def rows(
        self, random: np.random.Generator, shape: tuple[int, ...], lanes: slice = slice(None)
    ) -> NDArray[np.float32]:
        """Steps drawn evenly, with replacement: [*shape, columns]."""
        first, count = self._among(lanes)
        places = self._places(random.integers(0, self._filled, shape))
        return self._ring[places, random.integers(first, first + count, shape)]

    def windows(
        self,
        random: np.random.Generator,
        shape: tuple[int, ...],
        *,
        before: int,
        trained: int,
        lanes: slice = slice(None),
    ) -> Windows:
        """Windows of `trained` steps drawn evenly, with the `before` steps that led to each.

        `shape` ends with the number of windows; time is put before it. Where a lane had not begun so early,
        its steps are marked as not real.
        """
        if self._filled < trained:
            raise TrimtabError(f"windows of {trained} steps from a replay of {self._filled}; collect more")
        first, count = self._among(lanes)
        starts = random.integers(0, self._filled - trained + 1, shape)[..., None, :]
        lane = random.integers(first, first + count, shape)[..., None, :]
        times = starts + np.arange(-before, trained)[:, None]
        renewed = self.layout.token + 1
        past = np.empty((*times.shape, renewed + 1), np.float32)
        past[..., :renewed] = self._ring[self._places(np.maximum(times, 0)), lane, :renewed]
        past[..., renewed] = times >= 0
        past *= past[..., -1:]
        return Windows(past, self._ring[self._places(times[..., before:, :]), lane])

    def _among(self, lanes: slice) -> tuple[int, int]:
        first, end, _ = lanes.indices(self.lanes)
        return first, end - first

    def _places(self, times: NDArray[Any]) -> NDArray[Any]:
        """Where in the ring the steps lie that are so many after the oldest."""
        oldest = self._next if self._filled == len(self._ring) else 0
        return (times + oldest) % len(self._ring)


class Source(NamedTuple):
    """Some of a batch comes from here."""

    replay: Replay
    share: float
    lanes: slice = slice(None)


def drawn_rows(
    sources: Sequence[Source], random: np.random.Generator, shape: tuple[int, ...]
) -> NDArray[np.float32]:
    """A batch of steps from several sources, [*shape, columns]: their shares of the last axis of shape."""
    parts = [
        source.replay.rows(random, (*shape[:-1], count), source.lanes)
        for source, count in _counted(sources, shape[-1])
    ]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-2)


def drawn_windows(
    sources: Sequence[Source],
    random: np.random.Generator,
    shape: tuple[int, ...],
    *,
    before: int,
    trained: int,
) -> Windows:
    """A batch of windows from several sources: their shares of the last axis of shape."""
    parts = [
        source.replay.windows(
            random, (*shape[:-1], count), before=before, trained=trained, lanes=source.lanes
        )
        for source, count in _counted(sources, shape[-1])
    ]
    if len(parts) == 1:
        return parts[0]
    return Windows(*(np.concatenate(part, axis=-2) for part in zip(*parts, strict=True)))


def _counted(sources: Sequence[Source], total: int) -> list[tuple[Source, int]]:
    """Sources with whole numbers that add up to the total, in proportion to the shares; none with 0."""
    shares = np.cumsum([source.share for source in sources])
    ends = np.rint(shares / shares[-1] * total).astype(int)
    counts = np.diff(ends, prepend=0).tolist()
    return [(source, count) for source, count in zip(sources, counts, strict=True) if count]
