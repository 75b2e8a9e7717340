"""Every policy for stream autoscaling by name, with the settings it may be given.

`make_policy("ds2:target=0.8")` is the door for the command line and for tables. Other packages add names
through the entry point group ``trimtab.policies`` (``"stream/my-rule"``): a `Rule`, or a class or function
whose keyword arguments are the settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from trimtab.core.bundle import Bundle
from trimtab.core.policy_book import PolicyBook
from trimtab.stream_autoscaling.problem import StreamPolicy

__all__ = [
    "POLICIES",
    "PREFIX",
    "described",
    "find_bundle",
    "make_policy",
    "parse_policy",
    "short_name",
]

PREFIX = "stream/"

_RULES = "trimtab.stream_autoscaling.heuristics"


def _practised(bundle: Bundle) -> str:
    """What a bundle was trained on."""
    return ", ".join(bundle.manifest["trained"].get("jobs", []))


POLICIES = PolicyBook(
    PREFIX,
    {
        "aws": f"{_RULES}.aws:aws",
        "banded": f"{_RULES}.banded:banded",
        "dhalion": f"{_RULES}.dhalion:dhalion",
        "ds2": f"{_RULES}.ds2:ds2",
        "flink": f"{_RULES}.flink.rule:flink",
        "hpa": f"{_RULES}.hpa:hpa",
        "keda-lag": f"{_RULES}.keda:keda_lag",
        "oracle-static": f"{_RULES}.fixed:oracle_static",
        "reactive": f"{_RULES}.fixed:reactive",
        "static": f"{_RULES}.fixed:static",
    },
    kinds={
        "sure": "trimtab.stream_autoscaling.sure.policy:SurePolicy",
        "sure-compact": "trimtab.stream_autoscaling.sure.compact:compact_policy",
    },
    bundles=Path(str(files("trimtab.stream_autoscaling").joinpath("sure", "bundles"))),
    deciding="begin",
    example="ds2:target=0.8",
    told=_practised,
)
parse_policy, short_name = POLICIES.parse, POLICIES.short_name
described, find_bundle = POLICIES.described, POLICIES.find_bundle


def make_policy(name: str, values: Mapping[str, float] | None = None) -> StreamPolicy:
    """Make the policy of that name; settings may stand in the name or in `values`.

    A policy with settings of its own carries them in its name, so a table can show two of a kind.

    >>> make_policy("flink").name
    'flink'
    >>> make_policy("ds2:target=0.8").name
    'ds2:target=0.8'
    >>> make_policy("ds2", {"target": 0.6, "tolerance": 0.2}).name
    'ds2:target=0.6,tolerance=0.2'
    """
    return POLICIES.make(name, values)
