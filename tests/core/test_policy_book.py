"""Policies that other packages bring along, in the books of three wings; GPUs compose theirs otherwise."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from trimtab.core.errors import RegistryError, SettingsError
from trimtab.core.policy import tunable_parameters
from trimtab.dag_scheduling.policies import POLICIES as DAG
from trimtab.pod_autoscaling.policies import POLICIES as POD
from trimtab.stream_autoscaling.policies import POLICIES as STREAM


class Greedy:
    """Takes whatever there is."""

    def __init__(self, patience: float = 1.0) -> None:
        self.name = f"greedy:{patience:g}"

    def decide(self, snapshot: Any) -> Any:
        raise NotImplementedError

    begin = decide


def not_a_policy() -> int:
    """Make something else."""
    return 3


DAG_RULE, STREAM_RULE, POD_RULE = DAG.make("weighted-fair"), STREAM.make("aws"), POD.make("mpc")
WINGS = {
    "dag": (DAG, "DAG_RULE", "alpha=0.5", "decide"),
    "stream": (STREAM, "STREAM_RULE", "high=0.5", "begin"),
    "pod": (POD, "POD_RULE", "utilisation=0.5", "begin"),
}


@pytest.fixture(params=WINGS)
def plugged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A wing to whose policies three were added: a class, a function that makes no policy, a rule."""
    book, rule, _, _ = WINGS[request.param]
    names = {"greedy": "Greedy", "broken": "not_a_policy", "ready": rule}
    points = [
        EntryPoint(f"{request.param}/{name}", f"{__name__}:{target}", "trimtab.policies")
        for name, target in names.items()
    ]
    monkeypatch.setattr(book, "_entry_points", lambda: points)
    monkeypatch.setattr(book, "_found", None)
    return request.param


def test_policies_of_other_packages(plugged: str) -> None:
    book, rule, setting, deciding = WINGS[plugged]
    own = globals()[rule]
    assert book.make("greedy").name == "greedy:1"
    assert book.make("greedy:patience=2").name == "greedy:2"
    assert book.make("ready").name == own.name
    assert book.make(f"ready:{setting}").name == f"ready:{setting}"
    assert book.described("greedy") == "Takes whatever there is."
    assert book.described("ready") == own.sentence
    assert tunable_parameters(book.make("greedy")) == ()
    with pytest.raises(SettingsError, match=r"'greedy' refuses its settings: .*haste"):
        book.make("greedy:haste=2")
    with pytest.raises(RegistryError, match=f"'broken' makes int, which has no `name` and `{deciding}`"):
        book.make("broken")
