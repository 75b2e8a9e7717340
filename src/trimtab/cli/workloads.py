"""`trimtab workloads`: what can be simulated, and where more can come from."""

from __future__ import annotations

from trimtab.cli.terminal import JsonFlag, print_json, table_of

__all__ = ["workloads"]


def workloads(*, json: JsonFlag = False) -> None:
    """List workloads, streaming jobs and rate traces, and the histories that `trimtab import` reads."""
    from trimtab.dag_scheduling.history import HISTORY as OF_JOBS
    from trimtab.dag_scheduling.workload import presets as dag
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
    }
    if json:
        listed = {
            kind: [{"name": name, "description": text} for name, text in pairs]
            for kind, pairs in known.items()
        }
        print_json({**listed, "history": [*OF_JOBS, *OF_STREAMS]})
        return
    heads = {"workloads": "dag: --workload", "jobs": "stream: --job", "traces": "stream: --trace"}
    for kind, pairs in known.items():
        print(table_of([heads[kind], "what it is"], [list(pair) for pair in pairs]), end="\n\n")
    print(f"Your own jobs: trimtab import SOURCE PATH --out my.workload; sources: {', '.join(OF_JOBS)}")
    print(f"Your own streams: trimtab import SOURCE PATH --out my.trace; sources: {', '.join(OF_STREAMS)}")
