import pytest
from tests.dag_scheduling.one_class import POLICIES_FOR_ONE_CLASS
from tests.dag_scheduling.optimum import optimal_total_jct_ms

from trimtab.core.errors import WorkloadError
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.policies import make_policy
from trimtab.dag_scheduling.simulator.simulator import simulate
from trimtab.dag_scheduling.workload.tiny import TINY, tiny_workload

# By hand, moving takes 2 s. chain, 2 executors: move 2, both tasks 3, one task 2, both tasks 1.
# diamond, 2 executors: 2 + 1 + {4 and 4, then 3} + 1; 3 executors: 2 + 1 + 4 + 1.
# two-jobs, 1 executor: the short job first (2 + 1 + 1), then the long one (2 + 4 x 4 + 1).
# three-sizes, 1 executor: 2 + 1; then 2 + 2 x 2; then 2 + 4 x 3.
BY_HAND = [
    ("chain", 2, 8_000),
    ("diamond", 2, 11_000),
    ("diamond", 3, 8_000),
    ("two-jobs", 1, 4_000 + 23_000),
    ("three-sizes", 1, 3_000 + 9_000 + 23_000),
]
CASES = [(name, executors) for name in TINY for executors in (1, 2, 3)]


@pytest.mark.parametrize(("name", "executors", "total_ms"), BY_HAND)
def test_the_optimum_is_what_a_hand_computes(name: str, executors: int, total_ms: int) -> None:
    assert optimal_total_jct_ms(tiny_workload(name), Cluster(executors=executors)) == total_ms


@pytest.mark.parametrize(("name", "executors"), CASES)
@pytest.mark.parametrize("moving_delay_ms", [0, 2000])
def test_no_rule_beats_the_optimum(name: str, executors: int, moving_delay_ms: int) -> None:
    workload = tiny_workload(name)
    cluster = Cluster(executors=executors, moving_delay_ms=moving_delay_ms)
    optimum = optimal_total_jct_ms(workload, cluster)
    totals = {
        policy: int(simulate(workload, make_policy(policy), cluster).jct_ms.sum())
        for policy in POLICIES_FOR_ONE_CLASS
    }
    assert min(totals.values()) >= optimum
    # The bound is not an empty one: the best rule comes near it, where no arrival is to be foreseen.
    if workload.arrival_ms.max() == 0:
        assert min(totals.values()) <= 1.2 * optimum


@pytest.mark.parametrize(
    ("name", "executors", "policy"),
    [("chain", 2, "fair"), ("diamond", 3, "fair"), ("two-jobs", 1, "sjf-cp")],
)
def test_a_good_rule_reaches_the_optimum(name: str, executors: int, policy: str) -> None:
    workload, cluster = tiny_workload(name), Cluster(executors=executors)
    total = simulate(workload, make_policy(policy), cluster).jct_ms.sum()
    assert total == optimal_total_jct_ms(workload, cluster)


def test_free_moves_never_cost_more() -> None:
    for name in TINY:
        free, dear = (
            optimal_total_jct_ms(tiny_workload(name), Cluster(executors=2, moving_delay_ms=delay))
            for delay in (0, 2000)
        )
        assert free < dear


def test_an_unknown_name_answers_with_a_close_one() -> None:
    with pytest.raises(WorkloadError, match="no tiny workload 'diamnod'; did you mean 'diamond'"):
        tiny_workload("diamnod")
