"""Names to things, looked up once at the door.

Each wing makes its own `Registry` from a table of strings, so listing names imports nothing and
asking for one imports that one. Other packages add names through entry points::

    [project.entry-points."trimtab.policies"]
    "dag/my-rule" = "my_package.rules:my_rule"
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from trimtab.core.errors import RegistryError

__all__ = [
    "HISTORY_ENTRY_POINTS",
    "POLICY_ENTRY_POINTS",
    "SUITE_ENTRY_POINTS",
    "WORKLOAD_ENTRY_POINTS",
    "Registry",
]

POLICY_ENTRY_POINTS = "trimtab.policies"
WORKLOAD_ENTRY_POINTS = "trimtab.workloads"
HISTORY_ENTRY_POINTS = "trimtab.history"
SUITE_ENTRY_POINTS = "trimtab.suites"

# Names share their wing's prefix, so difflib's own 0.6 would call `dag/flour` close to `dag/ceil`.
_CLOSE = 0.7

Thing = TypeVar("Thing")


class Registry(Generic[Thing]):
    """A table from names like ``dag/fair`` to ``"module:object"``, loaded on first use.

    A `prefix` keeps to one wing: entry points of other wings in the same group are left alone.

    >>> rules = Registry("policy", {"dag/ceil": "math:ceil", "dag/floor": "math:floor"}, None)
    >>> rules.names()
    ('dag/ceil', 'dag/floor')
    >>> rules.load("dag/ceil")(1.5)
    2
    >>> rules.load("dag/flour")
    Traceback (most recent call last):
    trimtab.core.errors.RegistryError: no policy 'dag/flour'; did you mean 'dag/floor'? \
known: dag/ceil, dag/floor
    """

    def __init__(
        self,
        kind: str,
        table: Mapping[str, str],
        entry_point_group: str | None = None,
        *,
        prefix: str = "",
    ) -> None:
        self.kind = kind
        self._prefix = prefix
        self._group = entry_point_group
        self._built_in: dict[str, str] = {}
        for name, target in table.items():
            self._add(self._built_in, name, target)
        self._found: dict[str, str] | None = None

    def names(self) -> tuple[str, ...]:
        """List every name, sorted, without importing what they stand for."""
        return tuple(sorted(self._targets()))

    def load(self, name: str) -> Thing:
        """Import and return the thing of that name."""
        targets = self._targets()
        if name not in targets:
            raise RegistryError(self._unknown(name, targets))
        return self._import(name, targets[name])

    def __contains__(self, name: object) -> bool:
        return name in self._targets()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self._targets())

    def _targets(self) -> dict[str, str]:
        if self._found is None:
            found = dict(self._built_in)
            for point in self._entry_points():
                if point.name.startswith(self._prefix):
                    self._add(found, point.name, point.value, _brought_by(point))
            self._found = found
        return self._found

    def _entry_points(self) -> Iterable[EntryPoint]:
        return entry_points(group=self._group) if self._group else ()

    def _add(self, targets: dict[str, str], name: str, target: str, source: str = "") -> None:
        if name in targets:
            raise RegistryError(
                f"{self.kind} {name!r} is declared twice: {targets[name]} and {target}{source}; rename one"
            )
        if not name.startswith(self._prefix):
            raise RegistryError(f"{self.kind} {name!r} must begin with {self._prefix!r}; rename it")
        targets[name] = target

    def _import(self, name: str, target: str) -> Thing:
        module_name, _, path = target.partition(":")
        try:
            found = import_module(module_name)
            for attribute in path.split("."):
                found = getattr(found, attribute)
        except (ImportError, AttributeError, ValueError) as error:
            raise RegistryError(
                f"{self.kind} {name!r} points to {target!r}, which cannot be loaded: {error}; "
                "mend the entry or install what it needs"
            ) from error
        return found  # pyright: ignore[reportReturnType]

    def _unknown(self, name: str, targets: Mapping[str, str]) -> str:
        close = difflib.get_close_matches(name, targets, n=3, cutoff=_CLOSE)
        hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
        return f"no {self.kind} {name!r}; {hint}known: {', '.join(sorted(targets)) or 'none'}"


def _brought_by(point: EntryPoint) -> str:
    return f" (from package {point.dist.name})" if point.dist else ""
