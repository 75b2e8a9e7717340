"""trimtab: learned schedulers and autoscalers for clusters.

Public names are loaded when first used, so ``import trimtab`` costs milliseconds and pulls in
neither numba nor polars:

>>> import trimtab
>>> trimtab.__version__
'0.1.0'
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Public name -> "module:object". A wing adds its lines here; nothing is imported until asked for.
_PUBLIC: dict[str, str] = {
    "ActionError": "trimtab.core.errors:ActionError",
    "Environment": "trimtab.core.environment:Environment",
    "Estimate": "trimtab.core.statistics:Estimate",
    "HistoryError": "trimtab.core.errors:HistoryError",
    "Policy": "trimtab.core.policy:Policy",
    "Registry": "trimtab.core.registry:Registry",
    "RegistryError": "trimtab.core.errors:RegistryError",
    "RunFolder": "trimtab.core.run_folder:RunFolder",
    "Settings": "trimtab.core.settings:Settings",
    "SettingsError": "trimtab.core.errors:SettingsError",
    "Transition": "trimtab.core.environment:Transition",
    "TrimtabError": "trimtab.core.errors:TrimtabError",
    "WorkloadError": "trimtab.core.errors:WorkloadError",
}

__all__ = ["__version__", *_PUBLIC]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    try:
        module_name, object_name = _PUBLIC[name].split(":")
    except KeyError:
        raise AttributeError(f"module 'trimtab' has no attribute {name!r}") from None
    value = getattr(import_module(module_name), object_name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
