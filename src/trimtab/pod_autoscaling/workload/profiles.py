"""The functions that synthetic applications are made of: ranges of what a call needs.

The sixteen are the segments of Sizeless (Eismann et al., Middleware 2021), which AWARE (Qiu et al., ATC 2023)
joins to applications. Their authors give no measurements, so the ranges are ours: plausible for what a
segment does (`sleep` waits 100 to 500 ms, `matMul` multiplies matrices of 25 to 125 rows), and of the size of
vSwarm's functions, which were measured (191 variants: median durations of 1.8 to 9000 ms, 31 to 382 MB).
Do not take results on them for results on your own service: `trimtab fit-profile` measures that one.
"""

from __future__ import annotations

from typing import NamedTuple

from trimtab.core.errors import WorkloadError

__all__ = ["LOCAL", "PROFILES", "STORAGE", "FunctionProfile", "profile_of"]

Span = tuple[float, float]


class FunctionProfile(NamedTuple):
    """Ranges of one function's needs; an application draws its numbers from them."""

    cpu_ms: Span  # mean work of a call at one core
    cpu_variation: float  # squared coefficient of variation of the work
    io_ms: Span  # mean wait for something outside
    io_variation: float  # squared coefficient of variation of that wait
    memory_mib: Span  # of an idle pod that holds the function
    memory_per_request_mib: Span  # of a call inside


PROFILES: dict[str, FunctionProfile] = {
    # Work on text and bytes.
    "compress": FunctionProfile((1, 8), 0.5, (0, 0), 0.0, (50, 75), (1, 4)),
    "decompress": FunctionProfile((0.5, 4), 0.5, (0, 0), 0.0, (50, 75), (1, 4)),
    "json2yaml": FunctionProfile((0.5, 5), 0.5, (0, 0), 0.0, (50, 75), (0.5, 2)),
    # Work on numbers; the number of operations is uniform from next to nothing up.
    "floatOperations": FunctionProfile((20, 600), 0.35, (0, 0), 0.0, (50, 75), (0.5, 2)),
    "matMul": FunctionProfile((2, 60), 1.0, (0, 0), 0.0, (60, 85), (3, 12)),
    # Work on small pictures.
    "imageCompress": FunctionProfile((3, 30), 0.6, (0, 5), 1.0, (60, 85), (4, 16)),
    "imageResize": FunctionProfile((3, 30), 0.6, (0, 5), 1.0, (60, 85), (4, 16)),
    "imageRotate": FunctionProfile((3, 30), 0.6, (0, 5), 1.0, (60, 85), (4, 16)),
    # The pod's own disk.
    "readFile": FunctionProfile((1, 4), 0.4, (1, 10), 1.0, (50, 75), (1, 4)),
    "writeFile": FunctionProfile((15, 60), 0.4, (1, 10), 1.0, (50, 75), (1, 4)),
    # Uniform waits of 100 to 500 ms have a squared coefficient of variation of 0.15.
    "sleep": FunctionProfile((0.1, 0.4), 0.5, (100, 500), 0.15, (50, 75), (0.5, 2)),
    # Storage over the network; its libraries take 30 MiB.
    "S3Read": FunctionProfile((3, 10), 1.0, (20, 80), 1.0, (80, 110), (2, 8)),
    "S3Write": FunctionProfile((3, 10), 1.0, (40, 150), 1.0, (80, 110), (2, 8)),
    "S3Stream": FunctionProfile((3, 10), 1.0, (60, 250), 1.0, (80, 110), (2, 8)),
    "dynamoRead": FunctionProfile((2, 6), 1.0, (5, 40), 1.0, (80, 110), (1, 4)),
    "dynamoWrite": FunctionProfile((2, 6), 1.0, (5, 60), 1.0, (80, 110), (1, 4)),
    # Not of the sixteen, and like none of them: measured functions of vSwarm.
    "webPage": FunctionProfile((0.7, 6), 0.5, (2, 20), 1.0, (25, 190), (0.5, 2)),
    "rnnServing": FunctionProfile((150, 1600), 0.1, (0, 0), 0.0, (200, 250), (10, 40)),
    "videoAnalytics": FunctionProfile((260, 1400), 0.1, (2, 8), 1.0, (150, 380), (20, 80)),
}

STORAGE = ("S3Read", "S3Write", "S3Stream", "dynamoRead", "dynamoWrite")
LOCAL = tuple(list(PROFILES)[:11])
"""The eleven that need nothing outside the pod, which AWARE's 1,000 applications are made of."""


def profile_of(function: str) -> FunctionProfile:
    """The ranges of a function by name.

    >>> profile_of("sleep").io_ms
    (100, 500)
    """
    if function not in PROFILES:
        raise WorkloadError(f"no function {function!r}; there are {', '.join(PROFILES)}")
    return PROFILES[function]
