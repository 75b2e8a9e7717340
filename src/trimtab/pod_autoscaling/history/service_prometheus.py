"""Read what was measured of a service from Prometheus: asked for now, or answers saved in a folder.

A workload's name is enough for CPU, memory, replicas, limits and starts (cAdvisor and kube-state-metrics);
requests and latency come from a histogram of the service itself, such as `http_request_duration_seconds`.
Every query can be given instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.pod_autoscaling.fitting.service_history import (
    COLUMNS,
    ServiceHistory,
    check_step,
    service_history,
)
from trimtab.pod_autoscaling.history.metric_names import MEMORY_UNITS, Unit, metric_named
from trimtab.pod_autoscaling.problem import Floats
from trimtab.rates.counting import LONGEST
from trimtab.rates.range_queries import Points, on_grid, read_range, spacing_of
from trimtab.rates.reading import is_address

__all__ = ["queries_for", "read_service_prometheus"]

ADDED_UP = ("rate", "cpu", "in_flight", "replicas")
"""Of several series the sum is meant; of others only one makes sense."""
BYTES = Unit("bytes", MEMORY_UNITS["bytes"])
USUAL = {"memory_mib": BYTES}
"""What Prometheus has in other units than ours."""
HASH = "[bcdfghjklmnpqrstvwxz2456789]"
PODS = f"([0-9]+|{HASH}+-{HASH}{{5}})"
"""How names of pods end after that of their Deployment or StatefulSet: those of cart-admin are no cart's."""
STARTS = "starts"
FILES = "rate, cpu, memory, latency, latency_p50, latency_p99, in_flight, replicas, cpu_limit, starts"
NAMED_BY = {"rate": "latency_metric", "cpu": "workload"}
"""What cannot be done without, and the option that makes its query."""
GIVE = "give {options}, or the query itself ({queries})"
CHECK = "check {options} and the times, or give the query itself ({queries})"
SAVE = "save the answer as {files}"


def read_service_prometheus(
    source: str,
    *,
    keep_going: bool = False,
    start_s: float | None = None,
    end_s: float | None = None,
    step_s: float | None = None,
    namespace: str = "default",
    workload: str | None = None,
    latency_metric: str | None = None,
    selector: str = "",
    window: str = "1m",
    rate_query: str | None = None,
    cpu_query: str | None = None,
    memory_query: str | None = None,
    latency_query: str | None = None,
    latency_p50_query: str | None = None,
    latency_p99_query: str | None = None,
    in_flight_query: str | None = None,
    replicas_query: str | None = None,
    cpu_limit_query: str | None = None,
    starts_query: str | None = None,
    timeout_s: float = 30.0,
) -> tuple[ServiceHistory, ImportReport]:
    """Metrics of a service between two moments (seconds since 1970), every `step_s`.

    `source` is the address of a server, or a folder with saved answers of range queries, called like the
    columns of a CSV: `rate.json`, `cpu.json`, `memory.json`, `latency.json`, `replicas.json`, ... and
    `starts.json`. Without a unit in its name (`memory_mib.json`, `latency_ms.json`) an answer is in cores,
    bytes and seconds, as Prometheus has them.
    """
    check_step(source, step_s)
    report = ImportReport(source)
    given = {
        "rate": rate_query,
        "cpu": cpu_query,
        "memory_mib": memory_query,
        "latency_s": latency_query,
        "latency_p50_s": latency_p50_query,
        "latency_p99_s": latency_p99_query,
        "in_flight": in_flight_query,
        "replicas": replicas_query,
        "cpu_limit": cpu_limit_query,
        STARTS: starts_query,
    }
    if is_address(source):
        queries = queries_for(
            namespace=namespace,
            workload=workload,
            latency_metric=latency_metric,
            selector=selector,
            window=window,
        ) | {name: query for name, query in given.items() if query is not None}
        _refuse_missing(source, queries, GIVE)
        found = {
            name: read_range(
                source, query=query, start_s=start_s, end_s=end_s, step_s=step_s, timeout_s=timeout_s
            )
            for name, query in queries.items()
        }
        found["memory_mib"] = _in_our_unit(found.get("memory_mib", []), BYTES)
    else:
        found = _saved(Path(source))
    starts = found.pop(STARTS, [])
    found = {name: points for name, points in found.items() if points}
    _refuse_missing(source, found, CHECK if is_address(source) else SAVE)
    spacing_s = spacing_of(source, [one for points in found.values() for one in points], step_s)
    columns = _columns(source, found, spacing_s, report)
    report.count("series", sum(map(len, found.values())))
    report.count("steps", len(columns["rate"]))
    missing = [name for name in COLUMNS if name not in columns]
    if missing:
        report.assume(f"no data of {', '.join(missing)}")
    # A pod that was unready later has a later time too; the earliest is that of its start.
    starts_s = np.array([np.nanmin(one.values) for one in starts if np.isfinite(one.values).any()])
    report.count("starts", len(starts_s))
    return service_history(source, spacing_s, columns, starts_s=starts_s), report


def queries_for(
    *,
    namespace: str,
    workload: str | None,
    latency_metric: str | None,
    selector: str = "",
    window: str = "1m",
) -> dict[str, str]:
    """The usual queries in PromQL, by column; none for what is not named.

    Without a selector, rate and latency are those of the workload's pods, if there is one.

    >>> queries_for(namespace="shop", workload=None, latency_metric="http_request_duration_seconds")["rate"]
    'sum(rate(http_request_duration_seconds_count{namespace="shop"}[1m]))'
    """
    queries: dict[str, str] = {}
    if workload is not None:
        own_pods = f'pod=~"{workload}-{PODS}"'
        selector = selector or own_pods
        pods = f'{{namespace="{namespace}",{own_pods}}}'
        containers = f'{{namespace="{namespace}",{own_pods},container!="",container!="POD"}}'
        queries |= {
            "cpu": f"sum(rate(container_cpu_usage_seconds_total{containers}[{window}]))",
            "memory_mib": f"avg(sum by (pod) (container_memory_working_set_bytes{containers}))",
            "replicas": (
                f'max(kube_deployment_status_replicas_ready{{namespace="{namespace}",deployment="{workload}"}}'
                " or kube_statefulset_status_replicas_ready"
                f'{{namespace="{namespace}",statefulset="{workload}"}})'
            ),
            "cpu_limit": (
                "avg(sum by (pod) (kube_pod_container_resource_limits"
                f'{{namespace="{namespace}",{own_pods},resource="cpu"}}))'
            ),
            STARTS: f"kube_pod_status_ready_time{pods} - on (namespace, pod) kube_pod_start_time{pods}",
        }
    if latency_metric is not None:
        own = f'{{namespace="{namespace}"{"," + selector if selector else ""}}}'
        count = f"sum(rate({latency_metric}_count{own}[{window}]))"
        buckets = f"sum by (le) (rate({latency_metric}_bucket{own}[{window}]))"
        queries |= {
            "rate": count,
            "latency_s": f"sum(rate({latency_metric}_sum{own}[{window}])) / {count}",
            "latency_p50_s": f"histogram_quantile(0.5, {buckets})",
            "latency_p99_s": f"histogram_quantile(0.99, {buckets})",
        }
    return queries


def _refuse_missing(source: str, found: Mapping[str, object], way_out: str) -> None:
    missing = [name for name in NAMED_BY if name not in found]
    if missing:
        told = " and ".join(f"{name} ({COLUMNS[name]})" for name in missing)
        out = way_out.format(
            options=" and ".join(NAMED_BY[name] for name in missing),
            queries=" and ".join(f"{name}_query" for name in missing),
            files=" and ".join(f"{name}.json" for name in missing),
        )
        raise HistoryError(f"{source}: no data of {told}; {out}")


def _saved(folder: Path) -> dict[str, list[Points]]:
    if not folder.is_dir():
        raise HistoryError(f"{folder}: no such folder; save answers as rate.json, cpu.json, ... in one")
    found: dict[str, list[Points]] = {}
    for file in sorted(folder.glob("*.json*")):
        name = file.name.partition(".")[0]
        known = (STARTS, Unit("s", 1.0)) if name == STARTS else metric_named(name.lower(), USUAL)
        if known is None:
            raise HistoryError(
                f"{file}: no metric {name!r}; call the files {FILES} (.json), with the unit where it is not "
                "Prometheus' own, such as memory_mib.json"
            )
        metric, unit = known
        if metric in found:
            raise HistoryError(f"{file}: there is another file of {metric}; keep one of them")
        found[metric] = _in_our_unit(read_range(str(file)), unit)
    return found


def _in_our_unit(series: list[Points], unit: Unit) -> list[Points]:
    return [one._replace(values=one.values * unit.scale) for one in series]


def _columns(
    source: str, found: Mapping[str, list[Points]], step_s: float, report: ImportReport
) -> dict[str, Floats]:
    begin_s = min(one.times_s[0] for points in found.values() for one in points)
    last_s = max(one.times_s[-1] for points in found.values() for one in points)
    count = round((last_s - begin_s) / step_s) + 1
    if count > LONGEST:
        raise HistoryError(f"{source}: {count:,} steps of {step_s:g} s; give a longer step_s")
    columns = {}
    for name, points in found.items():
        if len(points) > 1 and name not in ADDED_UP:
            raise HistoryError(
                f"{source}: {len(points)} series of {name}; put them together in the query, such as avg(...)"
            )
        rows = np.array([on_grid(source, one, begin_s=begin_s, step_s=step_s, count=count) for one in points])
        unknown = np.isnan(rows).all(0)
        columns[name] = np.where(unknown, np.nan, np.nansum(rows, 0))
        report.drop(f"step without {name}", int(unknown.sum()))
    return columns
