"""From a Spark event log to a trained scheduler of your own, judged against the rules it has to beat.

pip install '.[train]' in the checkout. Give the path of your own log; without one, a small log that lies
with the tests is used. Training is cut to a few iterations here, most of the minute it takes is compiling:
expect the policy to lose. A real one takes `trimtab train dag --workload my.workload` and some patience or
a GPU.
"""

import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from trimtab.benchmark.compare import compare
from trimtab.benchmark.dag_scheduling.suites import BatchSuite
from trimtab.dag_scheduling import Cluster, Simulator, WorkloadSettings, draw_workload
from trimtab.dag_scheduling.decima.policy import load_policy
from trimtab.dag_scheduling.decima.task import load_preset
from trimtab.dag_scheduling.decima.training import train_decima
from trimtab.dag_scheduling.history import HISTORY
from trimtab.dag_scheduling.problem import decode
from trimtab.dag_scheduling.workload import save_workload

sample = Path(__file__).parents[1] / "tests" / "data" / "spark4_q6.eventlog.gz"
log = sys.argv[1] if len(sys.argv) > 1 else str(sample)

with TemporaryDirectory() as place:
    folder = Path(place)

    # 1. Import: the history becomes a workload file.
    history, report = HISTORY.load("spark")(log)
    save_workload(history, folder / "my.workload")
    print(report.lines()[1].strip())

    # 2. Train: four jobs of the recorded kinds at once, on four executors.
    jobs = WorkloadSettings(name=str(folder / "my.workload"), jobs=4)
    cluster = Cluster(executors=4)
    course = {
        "workload": jobs.model_dump(),
        "cluster": {"executors": 4},
        "teacher": "fair",
        "look_ahead_s": 10,
    }
    settings = load_preset(
        "decima-tpch-batch",
        {
            "courses": [course], "environments": 8, "lanes": 1, "threads": 1,
            "jobs_shown": 4, "validation": 4,
            "training.iterations": 6, "training.imitation_iterations": 0, "training.horizon": 16,
            "training.reset_every": 2, "training.checkpoint_every": 2, "training.validate_every": 2,
        },
    )  # fmt: skip
    bundle = train_decima(settings, folder / "run", name="mine", clock=lambda: datetime.now(UTC))

    # 3. Compare: on unseen workloads, with intervals.
    suite = BatchSuite(workload=jobs, cluster=cluster, seeds=5)
    policy = load_policy(bundle)
    comparison = compare(suite, policies=["fifo", "fair", "capped-srpt-local", policy])
    for row in comparison.results[0].rows:
        measured = row.metrics["mean_jct_s"]
        print(f"{row.policy:18} mean JCT {measured.value:6.2f} s ({measured.low:.2f} to {measured.high:.2f})")

    # 4. Decide: the bundle needs numpy alone, and answers any snapshot.
    simulator = Simulator(cluster)
    snapshot = simulator.reset(draw_workload(jobs, executors=cluster.executors, seed=0), seed=0)
    command = decode(snapshot, policy.decide(snapshot))
    assert command is not None
    print(f"first decision: {command.executors} executors to stage {command.stage} of job {command.job_id}")
