"""`trimtab policies`: what can be put after --policy."""

from __future__ import annotations

from trimtab.cli.terminal import JsonFlag, print_json, table_of
from trimtab.cli.wings import WingName

__all__ = ["policies"]


def policies(wing: WingName | None = None, /, *, json: JsonFlag = False) -> None:
    """List the policies with their settings and usual values.

    Parameters
    ----------
    wing:
        Only those of one wing: dag, stream, pod or gpu.
    """
    from trimtab.core.policy import parameters_of
    from trimtab.dag_scheduling.policies import POLICIES as DAG
    from trimtab.gpu_scheduling.policies import POLICIES as GPU
    from trimtab.pod_autoscaling.policies import POLICIES as POD
    from trimtab.stream_autoscaling.policies import POLICIES as STREAM

    found = []
    for name, book in (("dag", DAG), ("stream", STREAM), ("pod", POD), ("gpu", GPU)):
        if wing in (None, name):
            for policy in book:
                short = book.short_name(policy)
                found.append((name, short, book.described(policy), parameters_of(book.make(short))))
    if json:
        print_json(
            [
                {
                    "name": name,
                    "wing": of,
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
                for of, name, text, parameters in found
            ]
        )
        return
    rows = [
        [of, name, ",".join(f"{p.name}={p.value:g}" for p in parameters if p.grid), text]
        for of, name, text, parameters in found
    ]
    print(table_of(["wing", "policy", "settings to tune", "what it does"], rows))
    print("\nWith other settings: weighted-fair:alpha=-0.5; with tuned ones: weighted-fair:tuned")
    if wing in (None, "gpu"):
        _print_parts()
    print("Every setting with its meaning: trimtab policies --json")


def _print_parts() -> None:
    """Rules for GPUs are made of parts."""
    from trimtab.gpu_scheduling.policies import DISCIPLINES, ORDERS, PLACEMENTS

    print("\ngpu takes any order+placement+discipline, such as qssf+fgd+easy:")
    for kind, parts in (("orders", ORDERS), ("placements", PLACEMENTS), ("disciplines", DISCIPLINES)):
        print(f"  {kind}: {', '.join(parts)}")
    print()
