"""Control: what stands between a policy and a system. The guard, drift, the phases of a start, the journal.

Nothing here knows pods, streams or jobs: a wing brings its dimensions, bounds, floors and measures as values.

Names are loaded when first used, so ``import trimtab.control`` costs nothing:

>>> from trimtab.control import Dimension, Guard, GuardSettings
>>> guard = Guard(GuardSettings(dimensions=(Dimension(name="replicas", least=1, most=20),)))
>>> guard.settings.mode
'shadow'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trimtab.control.bootstrap import Bootstrap, BootstrapSettings, Phase, Thresholds, Turn
    from trimtab.control.decision import Guarded
    from trimtab.control.drift import Adwin, Drift, DriftSettings, DriftWatch, PageHinkley, WindowRule
    from trimtab.control.evidence import Evidence, Needs
    from trimtab.control.guard import Guard
    from trimtab.control.guard_settings import Dimension, GuardSettings
    from trimtab.control.journal import Decision, Journal, decision_of, read_journal, with_outcomes
    from trimtab.control.limits import Measure, product_of
    from trimtab.control.reasons import Acting, Reason, Step
    from trimtab.control.state import GuardState, state_from_arrays

_HOMES = {
    "bootstrap": ("Bootstrap", "BootstrapSettings", "Phase", "Thresholds", "Turn"),
    "decision": ("Guarded",),
    "drift": ("Adwin", "Drift", "DriftSettings", "DriftWatch", "PageHinkley", "WindowRule"),
    "evidence": ("Evidence", "Needs"),
    "guard": ("Guard",),
    "guard_settings": ("Dimension", "GuardSettings"),
    "journal": ("Decision", "Journal", "decision_of", "read_journal", "with_outcomes"),
    "limits": ("Measure", "product_of"),
    "reasons": ("Acting", "Reason", "Step"),
    "state": ("GuardState", "state_from_arrays"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Acting",
    "Adwin",
    "Bootstrap",
    "BootstrapSettings",
    "Decision",
    "Dimension",
    "Drift",
    "DriftSettings",
    "DriftWatch",
    "Evidence",
    "Guard",
    "GuardSettings",
    "GuardState",
    "Guarded",
    "Journal",
    "Measure",
    "Needs",
    "PageHinkley",
    "Phase",
    "Reason",
    "Step",
    "Thresholds",
    "Turn",
    "WindowRule",
    "decision_of",
    "product_of",
    "read_journal",
    "state_from_arrays",
    "with_outcomes",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'trimtab.control' has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
