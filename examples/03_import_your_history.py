"""Import a Spark event log, then ask which rule would have served such jobs best.

Give the path of your own log (a file, a zip, or a whole spark.eventLog.dir); without one, a small log
that lies with the tests is used.
"""

import sys
from pathlib import Path

from trimtab.dag_scheduling import Cluster, batch, make_policy, simulate
from trimtab.dag_scheduling.history import HISTORY

sample = Path(__file__).parents[1] / "tests" / "data" / "spark4_q6.eventlog.gz"
path = sys.argv[1] if len(sys.argv) > 1 else str(sample)

history, report = HISTORY.load("spark")(path)
print(*report.lines()[1:], sep="\n")

# Ten jobs of the recorded kinds at once, on a cluster that is too small to serve all of them.
cluster = Cluster(executors=8)
for seed in range(2):
    workload = batch(history.profile, jobs=10, seed=seed)
    for name in ("fifo", "fair"):
        episode = simulate(workload, make_policy(name), cluster, seed=seed)
        print(f"seed {seed}  {name:5} mean JCT {episode.metrics()['mean_jct_s']:.2f} s")
