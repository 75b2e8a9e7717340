"""Play the same 20 jobs under three rules; the smaller the mean job completion time (JCT), the better."""

from trimtab.dag_scheduling import Cluster, WorkloadSettings, draw_workload, make_policy, simulate

cluster = Cluster(executors=50)
workload = draw_workload(WorkloadSettings(name="synthetic", jobs=20), executors=50, seed=1)
print(f"{workload.job_count} jobs, {workload.task_count} tasks, {cluster.executors} executors")

for name in ("fifo", "fair", "capped-srpt"):
    episode = simulate(workload, make_policy(name), cluster, seed=1)
    metrics = episode.metrics()
    print(
        f"{name:12} mean JCT {metrics['mean_jct_s']:6.1f} s   p95 {metrics['p95_jct_s']:6.1f} s   "
        f"makespan {metrics['makespan_s']:6.1f} s   {episode.decisions} decisions"
    )
