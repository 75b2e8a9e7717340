"""`trimtab policies`: what can be put after --policy."""

from __future__ import annotations

from trimtab.cli.terminal import JsonFlag, print_json, table_of

__all__ = ["policies"]


def policies(*, json: JsonFlag = False) -> None:
    """List the policies with their settings and usual values."""
    from trimtab.dag_scheduling.heuristics import Rule
    from trimtab.dag_scheduling.policies import POLICIES, described, make_policy, short_name

    found = []
    for name in POLICIES:
        policy = make_policy(short_name(name))
        parameters = policy.parameters if isinstance(policy, Rule) else ()
        found.append((short_name(name), described(name), parameters))
    if json:
        print_json(
            [
                {
                    "name": name,
                    "wing": "dag",
                    "description": text,
                    "settings": [
                        {
                            "name": parameter.name,
                            "value": parameter.value,
                            "description": parameter.description,
                            "tunable": bool(parameter.grid),
                        }
                        for parameter in parameters
                    ],
                }
                for name, text, parameters in found
            ]
        )
        return
    rows = [
        [name, ",".join(f"{p.name}={p.value:g}" for p in parameters), text]
        for name, text, parameters in found
    ]
    print(table_of(["policy", "settings", "what it does"], rows))
    print("\nWith other settings: weighted-fair:alpha=-0.5; with tuned ones: weighted-fair:tuned")
