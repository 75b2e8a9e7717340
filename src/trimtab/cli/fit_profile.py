"""`trimtab fit-profile`: what was measured of a service becomes an application that can be simulated."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from trimtab.cli.import_history import check_target, options_of
from trimtab.cli.terminal import JsonFlag, Switch, print_json

if TYPE_CHECKING:
    from trimtab.pod_autoscaling.application import Application

__all__ = ["fit_profile", "full_pod_told"]

FULL_MARGIN = 1.05
"""What has leaked since the start comes on top of what a full pod holds."""


def fit_profile(
    source: str,
    /,
    *,
    out: Path,
    name: str | None = None,
    slo_ms: float = 0.0,
    balancing: Literal["two-choices", "random"] = "two-choices",
    keep_going: Switch = False,
    set: Annotated[list[str] | None, Parameter(negative=())] = None,
    json: JsonFlag = False,
) -> None:
    """Fit an application to metrics of a running service, and write its profile.

    Parameters
    ----------
    source:
        CSV of metrics (time, rps, cpu_cores, memory_mib, latency_ms, replicas, ...), address of a Prometheus,
        or folder of its saved answers.
    out:
        File to write, such as my-app.toml.
    name:
        Name of the application in tables (default: that of the file).
    slo_ms:
        Limit of the 99th percentile of latency; 0: twice that of an idle pod.
    balancing:
        How requests are spread over pods: to the emptier of two (Envoy, meshes) or at random (kube-proxy).
    keep_going:
        Fit to what is sound of a damaged history, and say how much was lost.
    set:
        An option of the source, such as cpu_unit=millicores or workload=shop; may be given several times.
    """
    from trimtab.core.errors import HistoryError
    from trimtab.pod_autoscaling.fitting import fit_application
    from trimtab.pod_autoscaling.history.service import reader_for
    from trimtab.pod_autoscaling.workload.applications import save_application

    check_target(out, source)
    if out.suffix.lower() != ".toml":
        raise HistoryError(f"{out}: a profile is TOML; call it {out.with_suffix('.toml')}")
    reader = reader_for(source)
    history, read = reader(source, keep_going=keep_going, **options_of(source, reader, set or []))
    application, report = fit_application(history, name=name or out.stem, slo_ms=slo_ms, balancing=balancing)
    for problem in (*report.impossible, application.limit_problem):
        if problem:
            raise HistoryError(f"{source}: {problem}")
    save_application(application, out)
    if json:
        print_json(
            {
                "profile": str(out),
                "application": application.model_dump(),
                "full_pod_mib": application.full_mib,
                **report.as_dict(),
                "read": read.as_dict(),
            }
        )
        return
    told = [
        f"{out}: {1000 * application.cpu_s:.3g} ms of work and {1000 * application.io_s:.3g} ms of waiting a "
        f"request, {application.memory_mib:.3g} MiB a pod; the limit is {1000 * application.slo_s:.3g} ms",
        full_pod_told(application),
        f"next: trimtab simulate pod --app {shlex.quote(str(out))} --policy hpa --draw hour.png",
    ]
    print("\n".join([*read.lines(), "", *report.lines(), "", *told]))


def full_pod_told(application: Application) -> str:
    """What a pod holds that has taken in all it can, and the setting with which no rush kills it.

    >>> from trimtab.pod_autoscaling.application import Application
    >>> print(full_pod_told(Application(workers=8, queue=12, memory_per_request_mib=5.0)))
    a full pod (8 requests at work, 12 in its queue) holds 160 MiB; least_memory_mib = 168 keeps every rush \
from killing one (simulate: in a file for --settings; compare, train: --set deployment.least_memory_mib=168)
    """
    least = math.ceil(FULL_MARGIN * application.full_mib)
    return (
        f"a full pod ({application.workers} requests at work, {application.queue} in its queue) holds "
        f"{application.full_mib:,.0f} MiB; least_memory_mib = {least} keeps every rush from killing one "
        f"(simulate: in a file for --settings; compare, train: --set deployment.least_memory_mib={least})"
    )
