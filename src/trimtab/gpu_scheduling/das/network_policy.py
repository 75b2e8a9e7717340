"""The trained networks of DAS as a policy, on numpy alone: load a bundle, look, decide."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.bundle import Bundle, flatten, unflatten
from trimtab.core.errors import BundleError
from trimtab.gpu_scheduling.das.design import Design
from trimtab.gpu_scheduling.das.executing import action_of_choice
from trimtab.gpu_scheduling.das.experience import Experience
from trimtab.gpu_scheduling.das.looking_at_once import look_at_once
from trimtab.gpu_scheduling.das.network import (
    encode,
    feature_names,
    new_network,
    order_scores,
    place_scores,
)
from trimtab.gpu_scheduling.das.view import PAIR_FACTS, View, empty_view, experience_row
from trimtab.gpu_scheduling.problem import HOLD, Action, Snapshot, gang_fits

__all__ = ["KIND", "WING", "NetworkPolicy", "best_choice", "mean_scores", "network_bundle", "network_policy"]

WING, KIND = "gpu_scheduling", "das-network"
MOST_MACHINES, BEST_MACHINES = 2048, 512
"""Of more machines than the first number, the best of the second number are looked at for a decision."""

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

_ROOM = PAIR_FACTS.index("room")
_EXPERIENCE = "experience/"
"""Names of tensors that begin so hold what jobs used to do; all others are those of the network."""
_NEVER = np.float32(-1e9)
# 8 jobs x 2,048 machines x 32 hidden numbers are 2 MiB: they stay in the cache from step to step.
_BLOCK = 16_384


def network_bundle(
    name: str,
    parameters: Any,
    design: Design,
    *,
    trained: dict[str, Any],
    scores: dict[str, Any],
    experience: Experience | None = None,
) -> Bundle:
    """Pack trained parameters, and the experience of an experienced design.

    The critic stays behind, it is of no use outside training.
    """
    experience_row(experience, design)
    manifest = {
        "settings": {"design": design.model_dump()},
        "features": feature_names(),
        "trained": trained,
        "scores": scores,
    }
    tensors = {
        key: np.asarray(one, np.float32) for key, one in flatten({"actor": parameters["actor"]}).items()
    }
    if experience is not None and design.experienced:
        known = experience.tensors().items()
        tensors |= {_EXPERIENCE + key: np.asarray(one, np.float64) for key, one in known}
    return Bundle(name, WING, KIND, manifest, tensors)


def network_policy(bundle: Bundle) -> NetworkPolicy:
    """The policy of a bundle, or a line that says why it cannot be played.

    >>> design = Design(window=8, width=16, layers=1)
    >>> fresh = network_bundle("mine", new_network(design, 0), design, trained={}, scores={})
    >>> network_policy(fresh).name
    'mine'
    """
    return NetworkPolicy(bundle)


def best_choice(parameters: Any, view: View, design: Design) -> tuple[int, Integers]:
    """Of the first row of a view: the likeliest job (or how many rows there are: hold), and its machines.

    Machines are ranked from the best down; those without room stand at the end.
    """
    known = encode(parameters, view, design, np)
    allowed = np.append(view.waits[0] & view.fits[0], view.may_hold[0])
    choice = int(np.where(allowed, order_scores(parameters, known, design, np)[0], _NEVER).argmax())
    rows = np.array([[min(choice, len(allowed) - 2)]])
    scores = place_scores(parameters, view, known, design, np, rows).mean[0, 0]
    has_room = view.real[0] & (view.pairs[0, rows[0, 0], :, _ROOM] > 0)
    return choice, np.argsort(-np.where(has_room, scores, _NEVER), kind="stable")


def mean_scores(parameters: Any, view: View, design: Design) -> tuple[Floats, Floats]:
    """Of the first row of a view: the mean scores of jobs [W], and of machines for each of them [W, M]."""
    known = encode(parameters, view, design, np)
    of_jobs = order_scores(parameters, known, design, np)[0, : len(view.waits[0])]
    count, machines = view.pairs.shape[1:3]
    of_machines = np.empty((count, machines), np.float32)
    at_once = max(1, _BLOCK // machines)
    for first in range(0, count, at_once):
        few = slice(first, first + at_once)
        some_known = known._replace(jobs=known.jobs[:, few])
        some_view = view._replace(pairs=view.pairs[:, few])
        of_machines[few] = place_scores(parameters, some_view, some_known, design, np).mean[0]
    return of_jobs, of_machines


class _Shown(NamedTuple):
    """One view with as many rows as jobs are shown."""

    view: View
    slots: Integers  # [window]
    machines: Integers  # which machine of the cluster each of the view's is


class _Round(NamedTuple):
    """Scores of a round, kept until it ends."""

    now_ms: int
    pending: frozenset[int]  # who waits when the next step falls due
    slots: Integers
    order: Integers  # rows of jobs, from the highest score down
    scores: Floats  # [jobs, machines of the cluster]


class NetworkPolicy:
    """Order and placement by two networks that learned together (DAS)."""

    needs_durations = False
    timed = False
    """As in training: whoever holds is asked again when a job comes or ends."""

    def __init__(self, bundle: Bundle) -> None:
        if (bundle.wing, bundle.kind) != (WING, KIND):
            raise BundleError(
                f"{bundle.name}: a bundle of {bundle.wing}/{bundle.kind}; networks of DAS are {WING}/{KIND}"
            )
        try:
            self.design = Design(**bundle.manifest["settings"]["design"])
        except (KeyError, TypeError, ValueError):
            raise BundleError(
                f"{bundle.name}: its manifest does not describe a network of this version; train it again"
            ) from None
        if bundle.manifest.get("features") != feature_names():
            raise BundleError(
                f"{bundle.name}: its agents see other features than this version; train it again"
            )
        tensors, self.experience = _parted(bundle, self.design)
        wanted = flatten({"actor": new_network(self.design, 0)["actor"]})
        if {name: array.shape for name, array in wanted.items()} != {
            name: array.shape for name, array in tensors.items()
        }:
            raise BundleError(f"{bundle.name}: its tensors are not those of its network; copy it again")
        self.name = bundle.name
        self.bundle = bundle
        self.parameters = unflatten(tensors)
        self._expected = experience_row(self.experience, self.design)
        self._view: View | None = None
        self._round: _Round | None = None

    def decide(self, snapshot: Snapshot) -> Action:
        """Start the likeliest job on the likeliest machines, or hold; scores stand for a whole round."""
        if len(snapshot.pending) == 0:
            return HOLD
        return self._scored(snapshot) if self.design.actions == "scores" else self._chosen(snapshot)

    def _chosen(self, snapshot: Snapshot) -> Action:
        shown = self._shown(snapshot)
        if not shown.view.fits.any():
            return HOLD
        choice, ranking = best_choice(self.parameters, shown.view, self.design)
        if choice == len(shown.view.waits[0]):
            return HOLD
        return action_of_choice(snapshot, shown.slots, np.append(choice, shown.machines[ranking]))

    def _scored(self, snapshot: Snapshot) -> Action:
        waiting = frozenset(snapshot.pending.tolist())
        known = self._round
        if known is None or known.now_ms != snapshot.now_ms or waiting != known.pending:
            known = _Round(int(snapshot.now_ms), waiting, *self._scores(snapshot))
        for row in known.order:
            slot = int(known.slots[row])
            if slot in waiting and gang_fits(snapshot, slot):
                self._round = known._replace(pending=waiting - {slot})
                ranking = np.argsort(-known.scores[row], kind="stable")
                return action_of_choice(snapshot, known.slots, np.append(row, ranking))
        self._round = None
        return HOLD

    def _scores(self, snapshot: Snapshot) -> tuple[Integers, Integers, Floats]:
        """Slots of jobs, their order, and scores of machines; what was not looked at comes last."""
        shown = self._shown(snapshot)
        of_jobs, of_machines = mean_scores(self.parameters, shown.view, self.design)
        scores = np.full((len(of_jobs), len(snapshot.gpus)), _NEVER)
        scores[:, shown.machines] = of_machines
        return shown.slots, np.argsort(-of_jobs, kind="stable"), scores

    def _shown(self, snapshot: Snapshot) -> _Shown:
        """What is seen; of very many machines the best ones alone, unless no job fits on those."""
        if len(snapshot.gpus) > MOST_MACHINES:
            shown = self._looked(snapshot, _best_machines(snapshot))
            if shown.view.fits.any():
                return shown
        return self._looked(snapshot, None)

    def _looked(self, snapshot: Snapshot, machines: Integers | None) -> _Shown:
        which = np.arange(len(snapshot.gpus)) if machines is None else machines
        view, slots = self._room_for(len(which)), np.zeros(self.design.window, np.int64)
        count = look_at_once(snapshot, view, 0, slots, machines, self._expected)
        jobs = {name: getattr(view, name)[:, :count] for name in ("jobs", "waits", "fits", "pairs")}
        return _Shown(view._replace(**jobs), slots, which)

    def _room_for(self, machines: int) -> View:
        if self._view is None or self._view.real.shape[1] != machines:
            self._view = empty_view(self.design, 1, machines)
        return self._view


def _parted(bundle: Bundle, design: Design) -> tuple[dict[str, NDArray[Any]], Experience | None]:
    """Tensors of the network, and the experience if the design has one."""
    if not design.experienced:
        return bundle.tensors, None
    known = {
        name.removeprefix(_EXPERIENCE): one
        for name, one in bundle.tensors.items()
        if name.startswith(_EXPERIENCE)
    }
    experience = Experience.from_tensors(known)
    if experience is None:
        raise BundleError(f"{bundle.name}: its experience is not whole; copy it again")
    others = {name: one for name, one in bundle.tensors.items() if not name.startswith(_EXPERIENCE)}
    return others, experience


def _best_machines(snapshot: Snapshot) -> Integers:
    """Those with most free GPUs times speed; all GPU types in turns, so that none is missed."""
    score = snapshot.free_milli * snapshot.speed
    best_first = np.lexsort((-score, snapshot.gpu_type))
    types = snapshot.gpu_type[best_first]
    rank = np.arange(len(types)) - np.searchsorted(types, types)
    chosen = best_first[np.lexsort((-score[best_first], rank))[:BEST_MACHINES]]
    return np.sort(chosen)
