"""What `trimtab explain` must know of a wing, and the wings it knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.cli.episode import EpisodeFlags

if TYPE_CHECKING:
    from trimtab.benchmark.suite import Scenario

__all__ = ["Asked", "Explainer", "explainer_of", "is_no_rule", "refuse_beyond"]


@dataclass(frozen=True)
class Asked:
    """An episode that can be played again, and who is asked about it."""

    suite: Any
    scenario: Scenario
    seed: int
    drawn: Any
    """What is played, as the wing's `draw` gives it."""
    policy: Any
    rules: Sequence[Any]


def is_no_rule(policy: Any) -> bool:
    """Whether a policy is something other than a rule with settings."""
    from trimtab.core.policy import RuleLike

    return not isinstance(policy, RuleLike)


@dataclass(frozen=True)
class Explainer:
    """A wing whose decisions can be explained, as a value."""

    wing: str
    choosing: tuple[str, ...]
    """Flags that choose among the episodes of a run; the others are refused."""
    rules: Callable[[Any], tuple[str, ...]]
    """Who else is asked on the grounds of a suite."""
    suite_of_flags: Callable[[EpisodeFlags], Any]
    """A suite of the one episode that `trimtab simulate` plays with these flags."""
    suite_of_training: Callable[[Mapping[str, Any]], Any]
    """A suite of what a policy was trained on, from the manifest of its bundle."""
    as_simulated: Callable[[Any, int], Any]
    """What `trimtab simulate` draws for the first scenario of a suite and a seed."""
    scenario: Callable[[Path, Any, EpisodeFlags], Scenario]
    """Which of a run's scenarios is meant; `run` is for the refusal."""
    content: Callable[[Asked, int], dict[str, Any]]
    """Play up to a decision, and say everything about it in plain values."""
    show: Callable[[Mapping[str, Any]], None]
    """Print the same for people."""
    is_trained: Callable[[Any], bool] = is_no_rule
    """Whether a policy was learned; of a run, the best of those is asked."""
    suite_of_simulation: Callable[[Path, Mapping[str, Any]], Any] | None = None
    """A suite of the one episode of a run of `simulate --out`; None: such runs cannot be played again."""


def refuse_beyond(decision: int, length_s: float, interval_s: float) -> None:
    """Refuse a decision that comes after the last interval of a trace."""
    from trimtab.core.errors import TrimtabError

    made = int(length_s // interval_s)
    if decision > made:
        raise TrimtabError(f"--decision {decision}: the episode has {made} decisions; give a smaller number")


def explainer_of(wing: str) -> Explainer:
    """The explainer of a wing, by the name in front of its suites."""
    from trimtab.core.errors import TrimtabError

    if wing == "dag":
        from trimtab.cli.explain_dag import DAG_EXPLAINER

        return DAG_EXPLAINER
    if wing == "stream":
        from trimtab.cli.explain_stream import STREAM_EXPLAINER

        return STREAM_EXPLAINER
    if wing == "pod":
        from trimtab.cli.explain_pod import POD_EXPLAINER

        return POD_EXPLAINER
    if wing == "gpu":
        from trimtab.cli.explain_gpu import GPU_EXPLAINER

        return GPU_EXPLAINER
    raise TrimtabError(
        f"{wing}: decisions of this wing cannot be explained; only of dag, stream, pod and gpu"
    )
