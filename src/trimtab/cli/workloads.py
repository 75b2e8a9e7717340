"""`trimtab workloads`: what can be simulated, and where more can come from."""

from __future__ import annotations

from trimtab.cli.terminal import JsonFlag, print_json, table_of

__all__ = ["workloads"]


def workloads(*, json: JsonFlag = False) -> None:
    """List workloads, streaming jobs, applications, rate traces and GPU clusters, and what is imported."""
    from trimtab.dag_scheduling.history import HISTORY as OF_JOBS
    from trimtab.dag_scheduling.workload import presets as dag
    from trimtab.gpu_scheduling.history import HISTORY as OF_GPUS
    from trimtab.gpu_scheduling.workload import clusters as gpu_clusters
    from trimtab.gpu_scheduling.workload import presets as gpu
    from trimtab.pod_autoscaling.history import HISTORY as OF_PODS
    from trimtab.pod_autoscaling.workload import applications as pod_applications
    from trimtab.pod_autoscaling.workload import presets as pod
    from trimtab.stream_autoscaling.history import HISTORY as OF_STREAMS
    from trimtab.stream_autoscaling.workload import jobs as stream_jobs
    from trimtab.stream_autoscaling.workload import presets as stream

    known = {
        "workloads": [(name.removeprefix(dag.PREFIX), dag.described(name)) for name in dag.WORKLOADS],
        "jobs": [
            (name.removeprefix(stream_jobs.PREFIX), stream_jobs.described_job(name))
            for name in stream_jobs.JOBS
        ],
        "traces": [
            (name.removeprefix(stream.PREFIX), stream.described_trace(name)) for name in stream.TRACES
        ],
        "applications": [
            (name.removeprefix(pod.PREFIX), pod_applications.described_application(name))
            for name in pod_applications.APPLICATIONS
        ],
        "pod_traces": [(name.removeprefix(pod.PREFIX), pod.described_trace(name)) for name in pod.TRACES],
        "gpu_workloads": [(name.removeprefix(gpu.PREFIX), gpu.described(name)) for name in gpu.WORKLOADS],
        "gpu_clusters": [(name, gpu_clusters.described_cluster(name)) for name in gpu_clusters.CLUSTERS],
    }
    if json:
        listed = {
            kind: [{"name": name, "description": text} for name, text in pairs]
            for kind, pairs in known.items()
        }
        print_json({**listed, "history": list(dict.fromkeys([*OF_JOBS, *OF_STREAMS, *OF_PODS, *OF_GPUS]))})
        return
    heads = {
        "workloads": "dag: --workload",
        "jobs": "stream: --job",
        "traces": "stream: --trace",
        "applications": "pod: --app",
        "pod_traces": "pod: --trace",
        "gpu_workloads": "gpu: --workload",
        "gpu_clusters": "gpu: --cluster",
    }
    for kind, pairs in known.items():
        print(table_of([heads[kind], "what it is"], [list(pair) for pair in pairs]), end="\n\n")
    print(f"Your own jobs: trimtab import SOURCE PATH --out my.workload; sources: {', '.join(OF_JOBS)}")
    print(f"Your own streams: trimtab import SOURCE PATH --out my.trace; sources: {', '.join(OF_STREAMS)}")
    print(f"Your own services: trimtab import SOURCE PATH --out my.trace; sources: {', '.join(OF_PODS)};")
    print("and trimtab fit-profile SOURCE --out my-app.toml, from metrics in a CSV or in Prometheus")
    print(
        f"Your own training jobs: trimtab import SOURCE PATH --out my.workload; sources: {', '.join(OF_GPUS)}"
    )
