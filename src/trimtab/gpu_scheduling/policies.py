"""Every policy for GPU clusters by name, with the settings it may be given.

A rule is named by its parts, ``order+placement+discipline``. The order comes first; a placement or discipline
left out is the usual one: ``best-fit``, and ``backfill`` (``preemptive`` for orders made for it). Settings of
all parts follow a colon: ``tiresias+fast:threshold=18000,min_run_s=600``.

Other packages add names through the entry point group ``trimtab.policies`` (``"gpu/my-rule"``): a `Rule`,
or a class or function whose keyword arguments are the settings. Trained policies are bundles on disk, named
as in the other wings.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from trimtab.core.bundle import Bundle
from trimtab.core.errors import RegistryError
from trimtab.core.policy import Policy
from trimtab.core.policy_book import PolicyBook
from trimtab.gpu_scheduling.heuristics import disciplines, orders, placements
from trimtab.gpu_scheduling.heuristics.rule import (
    DISCIPLINE,
    PLACEMENT,
    DisciplineFunction,
    OrderFunction,
    PlacementFunction,
    Rule,
    Setting,
)
from trimtab.gpu_scheduling.problem import Action, Snapshot

__all__ = [
    "DISCIPLINES",
    "ORDERS",
    "PLACEMENTS",
    "POLICIES",
    "PREFIX",
    "Discipline",
    "GpuPolicy",
    "Order",
    "Placement",
    "compose",
    "described",
    "find_bundle",
    "make_policy",
    "parse_policy",
    "short_name",
]

GpuPolicy = Policy[Snapshot, Action]
PREFIX = "gpu/"


@dataclass(frozen=True)
class Order:
    """An order by name."""

    function: OrderFunction
    settings: tuple[Setting, ...] = ()
    needs_durations: bool = False
    changes: bool = False
    """Time alone changes who is first."""
    discipline: str = "backfill"
    """The usual one for this order."""


@dataclass(frozen=True)
class Placement:
    """A placement by name."""

    function: PlacementFunction
    settings: tuple[Setting, ...] = ()


@dataclass(frozen=True)
class Discipline:
    """A discipline by name; `in_order` is its form for the order of arrival, where that is quicker."""

    function: DisciplineFunction
    settings: tuple[Setting, ...] = ()
    in_order: DisciplineFunction | None = None
    needs_durations: bool = False
    timed: bool = False
    """Time alone changes its answer."""
    heeds_first: bool = True
    """Whether it holds back depends on who is first, not only on what fits."""


_POWERS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 2.0, 3.0)
_THRESHOLDS = (900.0, 1800.0, 3600.0, 7200.0, 12000.0, 18000.0, 36000.0, 72000.0, 180000.0, 720000.0)

ORDERS: dict[str, Order] = {
    "fifo": Order(orders.fifo),
    "smallest": Order(orders.smallest),
    "largest": Order(orders.largest),
    "aged-smallest": Order(
        orders.aged_smallest,
        (Setting("power", 0.5, "how much age counts against GPUs", _POWERS, low=0, high=20),),
        changes=True,
    ),
    "drf": Order(orders.drf),
    "las": Order(orders.las, changes=True, discipline="preemptive"),
    "tiresias": Order(
        orders.tiresias,
        (
            Setting(
                "threshold", 18000.0, "GPU-seconds before the second queue", _THRESHOLDS, low=0, high=1e12
            ),
            Setting(
                "promote",
                0.0,
                "wait over run time that leads back to the first queue; 0: never",
                (0.0, 1.0, 2.0, 4.0, 8.0, 16.0),
                low=0,
                high=1e6,
            ),
        ),
        changes=True,
        discipline="preemptive",
    ),
    "tetris": Order(
        orders.tetris_order,
        (
            Setting(
                "shortness",
                1.0,
                "weight of the cluster-hours a job has left, where known",
                (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0),
                low=0,
                high=1e6,
            ),
        ),
    ),
    "random": Order(
        orders.random_order,
        (Setting("seed", 0.0, "number that fixes the order", low=0, high=1e9, whole=True),),
    ),
    "sjf": Order(orders.sjf, needs_durations=True),
    "srtf": Order(orders.srtf, needs_durations=True, changes=True, discipline="preemptive"),
    "srsf": Order(orders.srsf, needs_durations=True, changes=True, discipline="preemptive"),
    "qssf": Order(orders.qssf, needs_durations=True),
    "themis": Order(orders.themis, needs_durations=True, changes=True, discipline="preemptive"),
    "expansion-factor": Order(orders.expansion_factor, needs_durations=True, changes=True),
    "wfp": Order(
        orders.wfp,
        (Setting("power", 3.0, "power of wait over duration", (0.5, 1.0, 2.0, 3.0, 4.0), low=0, high=20),),
        needs_durations=True,
        changes=True,
    ),
    "unicef": Order(orders.unicef, needs_durations=True, changes=True),
}

PLACEMENTS: dict[str, Placement] = {
    "best-fit": Placement(placements.best_fit),
    "first-fit": Placement(placements.first_fit),
    "load-balance": Placement(placements.load_balance),
    "worst-fit": Placement(placements.worst_fit),
    "fast": Placement(
        placements.fast,
        (
            Setting(
                "neighbours",
                1.0,
                "how much the neighbours' loss counts beside the job's own",
                (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
                low=0,
                high=1000,
                part=PLACEMENT,
            ),
            Setting(
                "tightness",
                0.0,
                "speed given up for a machine with no GPU left free beside an empty one, as a share",
                (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.8),
                low=0,
                high=1,
                part=PLACEMENT,
            ),
            Setting(
                "trust",
                0.0,
                "how far speeds seen on a machine replace its nominal one",
                (0.0, 0.25, 0.5, 0.75, 1.0),
                low=0,
                high=1,
                part=PLACEMENT,
            ),
        ),
    ),
    "tetris": Placement(placements.tetris_place),
    "fgd": Placement(
        placements.fgd,
        (
            Setting(
                "blend",
                50.0,
                "thousandths of a GPU that a machine left wholly free counts as fragments",
                (0.0, 1.0, 5.0, 10.0, 25.0, 50.0, 100.0, 200.0, 500.0),
                low=0,
                high=1e6,
                part=PLACEMENT,
            ),
        ),
    ),
    "random": Placement(
        placements.random_place,
        (
            Setting(
                "machine_seed",
                0.0,
                "number that fixes the machines",
                low=0,
                high=1e9,
                whole=True,
                part=PLACEMENT,
            ),
        ),
    ),
}

DISCIPLINES: dict[str, Discipline] = {
    "strict": Discipline(disciplines.strict, in_order=disciplines.strict_in_order),
    "backfill": Discipline(disciplines.backfill, in_order=disciplines.backfill_in_order, heeds_first=False),
    "patient": Discipline(
        disciplines.patient,
        (
            Setting(
                "least_speed",
                0.65,
                "speed a job waits for, as a share of the best it could have",
                (0.0, 0.3, 0.5, 0.55, 0.6, 0.65, 0.7, 0.8),
                low=0,
                high=1,
                part=DISCIPLINE,
            ),
            Setting(
                "patience_h",
                1000.0,
                "hours after which it asks for a third of that",
                (1.0, 3.0, 10.0, 30.0, 100.0, 1000.0),
                low=0.001,
                high=1e6,
                part=DISCIPLINE,
            ),
        ),
        timed=True,
    ),
    "easy": Discipline(disciplines.easy, needs_durations=True),
    "conservative": Discipline(
        disciplines.conservative,
        (
            Setting(
                "depth",
                4.0,
                "jobs with reservations",
                (1.0, 2.0, 4.0, 8.0, 16.0),
                low=1,
                high=1000,
                whole=True,
                part=DISCIPLINE,
            ),
        ),
        needs_durations=True,
    ),
    "preemptive": Discipline(
        disciplines.preemptive,
        (
            Setting(
                "margin",
                0.5,
                "how far behind a running job must be to be displaced, as a share of the priority",
                (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
                low=0,
                high=1000,
                part=DISCIPLINE,
            ),
            # At least a second: what starts now is not displaced now, so a round of questions ends.
            Setting(
                "min_run_s",
                300.0,
                "seconds a job runs before it may be displaced",
                (1.0, 60.0, 300.0, 600.0, 1800.0, 3600.0),
                low=1,
                high=1e9,
                part=DISCIPLINE,
            ),
            Setting(
                "move_gain",
                0.0,
                "factor in speed for which a running job is moved to other machines; 0: never",
                (0.0, 1.05, 1.1, 1.25, 1.5, 2.0),
                low=0,
                high=1000,
                part=DISCIPLINE,
            ),
            Setting(
                "move_after_s",
                300.0,
                "seconds a job runs in one place before it may be moved",
                (120.0, 300.0, 900.0, 3600.0),
                low=60,
                high=1e9,
                part=DISCIPLINE,
            ),
            Setting(
                "least_speed",
                0.0,
                "speed a job waits for, as a share of the best it could have; 0: none",
                (0.0, 0.5, 0.6, 0.65, 0.7, 0.8),
                low=0,
                high=1,
                part=DISCIPLINE,
            ),
        ),
        timed=True,
    ),
}

USUAL_PLACEMENT = "best-fit"

NAMED = (
    *ORDERS,
    # The baselines of DAS (KDD'23), Table 1; smallest first is DRF for gangs that cannot shrink.
    "fifo+first-fit+strict",
    "fifo+load-balance+strict",
    "smallest+first-fit+strict",
    "smallest+load-balance+strict",
    "tetris+tetris+strict",
    # The same without head-of-line blocking, and the best we know of each kind.
    "fifo+first-fit",
    "fifo+load-balance",
    "fifo+fast",
    "fifo+fgd",
    "fifo+random",
    "fifo+best-fit+easy",
    "fifo+best-fit+conservative",
    "fifo+fast+easy",
    "smallest+first-fit",
    "smallest+load-balance",
    "smallest+fast",
    "smallest+fgd",
    "aged-smallest+fast",
    "tetris+tetris",
    "las+fast",
    "tiresias+fast",
    "sjf+fast",
    "qssf+fast",
    "srtf+fast",
    "srsf+fast",
    "srsf+fgd",
    "random+random",
)
"""Rules that stand in lists; any other combination may be asked for by its name."""

_COMPOSED = "order+placement+discipline"

_PLANNERS = {
    "gavel": "trimtab.gpu_scheduling.heuristics.gavel:gavel",
    "gavel-min-jct": "trimtab.gpu_scheduling.heuristics.gavel:gavel_min_jct",
    "gavel-makespan": "trimtab.gpu_scheduling.heuristics.gavel:gavel_makespan",
    "malo": "trimtab.gpu_scheduling.heuristics.malo:malo",
    "mosa": "trimtab.gpu_scheduling.heuristics.mosa:mosa",
}
"""Rules that are not made of parts: they plan for all jobs together, and are asked in Python."""


def compose(name: str) -> Rule:
    """Make the rule of a name of one to three parts.

    >>> compose("smallest+fast").sentence.split(";")[0]
    'Fewest GPUs first'
    >>> compose("smallest+fats")
    Traceback (most recent call last):
    trimtab.core.errors.RegistryError: policy 'smallest+fats': no placement or discipline 'fats'; \
did you mean 'fast'? placements: best-fit, first-fit, load-balance, worst-fit, fast, tetris, fgd, random; \
disciplines: strict, backfill, patient, easy, conservative, preemptive
    """
    first, *others = name.split("+")
    if first not in ORDERS:
        raise RegistryError(f"policy {name!r}: {_unknown(first, order=ORDERS)}")
    order = ORDERS[first]
    placed, kept = None, None
    for part in others:
        if part in PLACEMENTS and placed is None:
            placed = part
        elif part in DISCIPLINES and kept is None:
            kept = part
        elif part in PLACEMENTS or part in DISCIPLINES:
            kind = "placement" if part in PLACEMENTS else "discipline"
            raise RegistryError(
                f"policy {name!r}: {part!r} is a second {kind}; write order+placement+discipline"
            )
        elif part in ORDERS:
            raise RegistryError(f"policy {name!r}: {part!r} is an order; write order+placement+discipline")
        else:
            raise RegistryError(
                f"policy {name!r}: {_unknown(part, placement=PLACEMENTS, discipline=DISCIPLINES)}"
            )
    return _joined(name, order, PLACEMENTS[placed or USUAL_PLACEMENT], DISCIPLINES[kept or order.discipline])


def _joined(name: str, order: Order, placement: Placement, discipline: Discipline) -> Rule:
    in_order = discipline.in_order if order.function is orders.fifo else None
    return Rule(
        name,
        order.function,
        placement.function,
        in_order or discipline.function,
        (*order.settings, *placement.settings, *discipline.settings),
        needs_durations=order.needs_durations or discipline.needs_durations,
        timed=discipline.timed or (order.changes and discipline.heeds_first),
    )


def _unknown(part: str, policies: Sequence[str] = (), **tables: Mapping[str, object]) -> str:
    known = [*(name for table in tables.values() for name in table), *policies]
    close = difflib.get_close_matches(part, known, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    lists = "; ".join(f"{kind}s: {', '.join(table)}" for kind, table in tables.items())
    if policies:
        lists += f"; policies: {', '.join(policies)}"
    return f"no {' or '.join(tables)} {part!r}; {hint}{lists}"


class GpuPolicyBook(PolicyBook):
    """The policies of this wing: those of the book, and rules made of parts."""

    def load(self, name: str) -> Any:
        """The registered thing of that name, else the rule made of these parts."""
        return super().load(name) if super().__contains__(name) else self._composed(name)

    def __contains__(self, name: object) -> bool:
        if super().__contains__(name):
            return True
        if not (isinstance(name, str) and name.startswith(self.prefix)):
            return False
        try:
            compose(self.short_name(name))
        except RegistryError:
            return False
        return True

    def _import(self, name: str, target: str) -> Any:
        return self._composed(name) if target == _COMPOSED else super()._import(name, target)

    def _composed(self, name: str) -> Rule:
        short = self.short_name(name)
        first, _, others = short.partition("+")
        if first in ORDERS:
            return compose(short)
        registered = [self.short_name(known) for known in self.names() if self.short_name(known) not in NAMED]
        if others or not registered:
            return compose(short)
        raise RegistryError(f"policy {short!r}: {_unknown(first, registered, order=ORDERS)}")


def _practised(bundle: Bundle) -> str:
    """What a bundle was trained on."""
    return "; ".join(str(one) for one in bundle.manifest["trained"].get("workloads", []))


POLICIES = GpuPolicyBook(
    PREFIX,
    {**dict.fromkeys(NAMED, _COMPOSED), **_PLANNERS},
    kinds={
        "das-compact": "trimtab.gpu_scheduling.das.compact:compact_policy",
        "das-network": "trimtab.gpu_scheduling.das.network_policy:network_policy",
        "dl2": "trimtab.gpu_scheduling.rivals.dl2:Dl2Policy",
        "rifling": "trimtab.gpu_scheduling.rivals.rifling:RiflingPolicy",
    },
    bundles=Path(str(files("trimtab.gpu_scheduling").joinpath("das", "bundles"))),
    deciding="decide",
    example="tiresias+best-fit:threshold=18000",
    told=_practised,
)
parse_policy, short_name = POLICIES.parse, POLICIES.short_name
described, find_bundle = POLICIES.described, POLICIES.find_bundle


def make_policy(name: str, values: Mapping[str, float] | None = None) -> GpuPolicy:
    """Make the policy of that name; settings may stand in the name or in `values`.

    >>> make_policy("fifo").name
    'fifo'
    >>> make_policy("tiresias+fast:threshold=3600").name
    'tiresias+fast:threshold=3600'
    """
    return POLICIES.make(name, values)
