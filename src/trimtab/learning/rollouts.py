"""Play: the policy on the device, the environments on the host, both busy at once.

The environments come in lanes, usually two, each with a thread of its own: while the policy thinks about
one lane, or its observation travels to the device, the host steps the other::

    device   policy(A)  policy(B)  policy(A)  policy(B) ...
    host                step(A)    step(B)    step(A)   ...

Observations go to the device once, where the policy reads them and the update finds them again.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from trimtab.core.environment import BatchEnvironment, BatchOutcome
from trimtab.learning.agent import Acted, Observation, Parameters

__all__ = ["Act", "CompiledAct", "CutShort", "Rollout", "Watched", "collect", "compiled"]

Act: TypeAlias = Callable[[Parameters, Observation, jax.Array], Acted]
CompiledAct: TypeAlias = Callable[[Parameters, Any, Any], tuple[Acted, Observation]]
"""Decides, and also returns the observation, which then lies on the device."""
_BLOCK = 128
"""Steps that are stacked at once."""


def compiled(act: Act) -> CompiledAct:
    """Compile an agent's `act` for `collect`; once per run, since each call compiles anew.

    Host arrays passed to a compiled function reach the device at a third of the cost of putting
    each there beforehand. The barrier makes the function return the device's copies.
    """

    def answered(
        parameters: Parameters, observation: Observation, key: jax.Array
    ) -> tuple[Acted, Observation]:
        return act(parameters, observation, key), jax.lax.optimization_barrier(observation)

    return jax.jit(answered)


class Rollout(NamedTuple):
    """What was seen, done and earned; leaves are [time, envs, ...], lanes side by side.

    `last_value` [envs] is the value of the observation after the horizon. `valid` is false for
    decisions after the first end where only whole episodes count. `beyond`, where environments say
    where they were cut short, is the value of what would have come next there, else 0.
    """

    observation: Observation
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    last_value: jax.Array
    rewards: NDArray[np.float32]
    elapsed_s: NDArray[np.float32]
    ended: NDArray[np.bool_]
    valid: NDArray[np.bool_]
    beyond: NDArray[np.float32] | None = None

    @property
    def decisions(self) -> int:
        """How many decisions count."""
        return int(np.count_nonzero(self.valid))


class CutShort(NamedTuple):
    """What a step led to, and where [envs] an episode ended there only because somebody stopped watching."""

    observation: Mapping[str, NDArray[Any]]
    where: NDArray[np.bool_]


@runtime_checkable
class Watched(Protocol):
    """A `BatchEnvironment` that tells ends of episodes from those cut short."""

    def cut_short(self) -> CutShort | None:
        """Where the last step was cut short; nothing where none was."""
        ...


class _Lane:
    """One lane in play: what the policy was last asked, and everything before."""

    def __init__(self, environment: BatchEnvironment, act: CompiledAct, parameters: Parameters) -> None:
        self.environment = environment
        self._watched = environment if isinstance(environment, Watched) else None
        self._act = act
        self._parameters = parameters
        self.observations: list[Observation] = []
        self.acted: list[Acted] = []
        self.outcomes: list[BatchOutcome] = []
        self.beyond: list[NDArray[np.float32]] = []

    def ask(self, key: NDArray[np.uint32]) -> None:
        """Hand the next observation to the policy, without waiting for its answer."""
        acted, observation = self._act(self._parameters, self.environment.observe(), key)
        acted.action.copy_to_host_async()
        self.observations.append(observation)
        self.acted.append(acted)

    def answer(self) -> BatchOutcome:
        """Wait for the policy's answer to the last question and live through it."""
        outcome = self.environment.step(np.asarray(self.acted[-1].action))
        self.outcomes.append(outcome)
        if self._watched is not None:
            self.beyond.append(self._valued(self._watched.cut_short()))
        return outcome

    def play(self, keys: NDArray[np.uint32], *, whole_episodes: bool) -> None:
        """Ask, then answer and ask again once for each key, or until every environment has ended."""
        self.ask(keys[0])
        unfinished = np.ones(self.environment.size, bool)
        for key in keys[1:]:
            unfinished &= ~self.answer().ended
            self.ask(key)
            if whole_episodes and not unfinished.any():
                break

    def _valued(self, cut: CutShort | None) -> NDArray[np.float32]:
        """What the future would have been worth where somebody stopped watching; a value needs no luck."""
        if cut is None:
            return np.zeros(self.environment.size, np.float32)
        acted, _ = self._act(self._parameters, dict(cut.observation), np.zeros(2, np.uint32))
        return np.where(cut.where, np.asarray(acted.value), np.float32(0))


def collect(
    lanes: Sequence[BatchEnvironment],
    act: CompiledAct,
    parameters: Parameters,
    key: jax.Array,
    horizon: int,
    *,
    whole_episodes: bool = False,
) -> Rollout:
    """Make `horizon` decisions in every environment, from where each stands now.

    `act` comes from `compiled`. Whole episodes: each lane goes on until its environments have all ended once,
    or to the horizon; the time axis is then padded to one of few lengths (each new one compiles).
    There, `valid` is false after the first end, and wholly for an episode the horizon cut short:
    half an episode would teach that taking many decisions is cheap.
    """
    playing = [_Lane(lane, act, parameters) for lane in lanes]
    # Drawn at once and kept on the host: splitting a key for each decision would cost more than it.
    keys = np.asarray(_split(key, (horizon + 1) * len(playing))).reshape(horizon + 1, len(playing), 2)
    with ThreadPoolExecutor(len(playing)) as threads:
        list(threads.map(partial(_Lane.play, whole_episodes=whole_episodes), playing, keys.swapaxes(0, 1)))
    return _gathered(playing, horizon if whole_episodes else None)


def _split_key(key: jax.Array, count: int) -> jax.Array:
    return jax.random.split(key, count)


_split = jax.jit(_split_key, static_argnums=1)


def _gathered(playing: Sequence[_Lane], longest: int | None) -> Rollout:
    steps = max(len(lane.outcomes) for lane in playing)
    length = steps if longest is None else min(_rounded_up(steps), longest)
    # What was asked last has not been answered.
    observation = _side_by_side([_padded(lane.observations[:-1], length) for lane in playing])
    acted = _side_by_side([_padded(lane.acted[:-1], length) for lane in playing])
    rewards, elapsed_s, ended = (
        np.concatenate([_on_host(lane.outcomes, column, length) for lane in playing], axis=1)
        for column in range(3)
    )
    valid = np.ones_like(ended)
    if longest is not None:
        valid[1:] = ~np.logical_or.accumulate(ended, axis=0)[:-1]
        valid[:, ~ended.any(axis=0)] = False
    last_value = _concatenated([lane.acted[-1].value for lane in playing])
    beyond = None
    if all(lane.beyond for lane in playing):
        beyond = np.concatenate([_lengthened(lane.beyond, length) for lane in playing], axis=1)
    return Rollout(
        observation,
        acted.action,
        acted.log_prob,
        acted.value,
        last_value,
        rewards,
        elapsed_s,
        ended,
        valid,
        beyond,
    )


def _rounded_up(steps: int) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 12, 16, ...: at most a third is padding."""
    power = 1
    while power < steps:
        power *= 2
    return power * 3 // 4 if power >= 4 and steps <= power * 3 // 4 else power


def _padded(items: list[Any], length: int) -> list[Any]:
    return items + [items[-1]] * (length - len(items))


def _on_host(outcomes: Sequence[BatchOutcome], column: int, length: int) -> NDArray[Any]:
    return _lengthened([outcome[column] for outcome in outcomes], length)


def _lengthened(rows: Sequence[NDArray[Any]], length: int) -> NDArray[Any]:
    stacked = np.stack(rows)
    return np.pad(stacked, ((0, length - len(stacked)), (0, 0)))


def _side_by_side(lanes: Sequence[Sequence[Any]]) -> Any:
    """Stack each lane's trees over time and put the lanes side by side, leaf by leaf."""
    flat = [[jax.tree.leaves(tree) for tree in lane] for lane in lanes]
    structure = jax.tree.structure(lanes[0][0])
    leaves = [
        _stacked([[leaves[at] for leaves in lane] for lane in flat]) for at in range(structure.num_leaves)
    ]
    return jax.tree.unflatten(structure, leaves)


def _stacked(lanes: Sequence[Sequence[jax.Array]]) -> jax.Array:
    """Stack block by block: to compile a stack of 2,000 arrays takes half a minute, of 128 a blink."""
    return _joined([[_block(lane[at : at + _BLOCK]) for at in range(0, len(lane), _BLOCK)] for lane in lanes])


@jax.jit
def _block(steps: Sequence[jax.Array]) -> jax.Array:
    return jnp.stack(steps)


@jax.jit
def _joined(lanes: Sequence[Sequence[jax.Array]]) -> jax.Array:
    return jnp.concatenate([jnp.concatenate(blocks) for blocks in lanes], axis=1)


@jax.jit
def _concatenated(lanes: Sequence[jax.Array]) -> jax.Array:
    return jnp.concatenate(lanes)
