"""Every policy for pod autoscaling by name, with the settings it may be given.

`make_policy("hpa:target=70")` is the door for the command line and for tables. Other packages add names
through the entry point group ``trimtab.policies`` (``"pod/my-rule"``): a `Rule`, or a class or function
whose keyword arguments are the settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from trimtab.core.bundle import Bundle
from trimtab.core.policy_book import PolicyBook
from trimtab.pod_autoscaling.problem import PodPolicy

__all__ = [
    "POLICIES",
    "PREFIX",
    "described",
    "find_bundle",
    "make_policy",
    "parse_policy",
    "short_name",
]

PREFIX = "pod/"

_RULES = "trimtab.pod_autoscaling.heuristics"
_RIVALS = "trimtab.pod_autoscaling.rivals"


def _practised(bundle: Bundle) -> str:
    """What a bundle was trained on."""
    return ", ".join(bundle.manifest["trained"].get("applications", []))


POLICIES = PolicyBook(
    PREFIX,
    {
        "a-sarsa": f"{_RIVALS}.a_sarsa:a_sarsa",
        "adrl": f"{_RIVALS}.adrl:adrl",
        "autothrottle": f"{_RULES}.autothrottle:autothrottle",
        "deepscaling": f"{_RIVALS}.deepscaling:deepscaling",
        "hpa": f"{_RULES}.hpa:hpa",
        "hpa-vpa": f"{_RULES}.hpa_vpa:hpa_vpa",
        "keda": f"{_RULES}.keda:keda",
        "miras": f"{_RIVALS}.miras:miras",
        "mpc": f"{_RULES}.mpc:mpc",
        "multi": f"{_RULES}.multi:multi",
        "predictive-hpa": f"{_RULES}.predictive:predictive_hpa",
        "q-learning": f"{_RIVALS}.q_learning:q_learning",
        "simppo": f"{_RIVALS}.simppo:simppo",
        "static": f"{_RULES}.fixed:static",
        "vpa": f"{_RULES}.vpa:vpa",
    },
    kinds={"aware": "trimtab.pod_autoscaling.aware.policy:AwarePolicy"},
    bundles=Path(str(files("trimtab.pod_autoscaling").joinpath("aware", "bundles"))),
    deciding="begin",
    example="hpa:target=70",
    told=_practised,
)
parse_policy, short_name = POLICIES.parse, POLICIES.short_name
described, find_bundle = POLICIES.described, POLICIES.find_bundle


def make_policy(name: str, values: Mapping[str, float] | None = None) -> PodPolicy:
    """Make the policy of that name; settings may stand in the name or in `values`.

    A policy with settings of its own carries them in its name, so a table can show two of a kind.

    >>> make_policy("multi").name
    'multi'
    >>> make_policy("hpa:target=80").name
    'hpa:target=80'
    >>> make_policy("hpa", {"target": 80, "cpu": 2}).name
    'hpa:target=80,cpu=2'
    """
    return POLICIES.make(name, values)
