"""How wings are named on the command line: ``dag``, or by the package, ``dag_scheduling``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from cyclopts import Parameter, Token, convert

__all__ = ["SuiteName", "WingName", "short_wing"]

SHORT = {
    "dag_scheduling": "dag",
    "stream_autoscaling": "stream",
    "pod_autoscaling": "pod",
    "gpu_scheduling": "gpu",
}


def short_wing(name: str) -> str:
    """A wing, or a suite of it, by the short name of the wing.

    >>> short_wing("dag_scheduling"), short_wing("gpu_scheduling/das-small"), short_wing("pod")
    ('dag', 'gpu/das-small', 'pod')
    """
    wing, slash, suite = name.partition("/")
    return SHORT.get(wing, wing) + slash + suite


def _read(kind: Any, tokens: Sequence[Token]) -> Any:
    return convert(kind, [token.evolve(value=short_wing(token.value)) for token in tokens])


WingName = Annotated[Literal["dag", "stream", "pod", "gpu"], Parameter(converter=_read)]
SuiteName = Annotated[str, Parameter(converter=_read)]
