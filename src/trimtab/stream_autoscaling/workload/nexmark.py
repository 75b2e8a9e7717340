"""Jobs shaped like queries of the Nexmark benchmark, and the job that was measured on a real Flink.

Shapes, ratios of the streams (person : auction : bid = 1 : 3 : 46), filters and windows are Nexmark's.
Service times are ours: real ones (2 microseconds for a currency conversion) would keep a fraction of one
subtask busy, so they are chosen such that a few subtasks per vertex are needed.
"""

from __future__ import annotations

from trimtab.core.errors import WorkloadError
from trimtab.stream_autoscaling.job import Edge, Job, Vertex

__all__ = ["flink_count", "q1", "q3", "q5", "q8", "q11", "q20"]

EVENTS_PER_S = 10_000.0
PERSON, AUCTION, BID = 1 / 50, 3 / 50, 46 / 50
"""Shares of all events."""
KEY_GROUPS = 128
MAPPER_SCALING = 0.80
"""529,573 records/s with one subtask, 7,476,392 with 26, as the authors of ContTune (VLDB'23) measured q1."""
SMOOTHED_S = 2.0
"""What hot keys last less than this evens out in buffers."""


def _hot_share(hot_ratio: int, new_ids_share: float) -> float:
    """Share of the busiest key over `SMOOTHED_S`.

    Nexmark sends all but one in `hot_ratio` bids to a hot id, which changes after every 100 new ids. At
    10,000 events/s and 3 auctions in 50 events that is every 0.17 s: half of the bids over 12 ids, 4 %.
    """
    lasts_s = 100 / (EVENTS_PER_S * new_ids_share)
    return (1 - 1 / hot_ratio) / max(1.0, SMOOTHED_S / lasts_s)


def _at(busy: float, rate: float) -> float:
    """Milliseconds per record that keep so many subtasks busy at so many records per second."""
    return float(f"{1000 * busy / rate:.4g}")


def q1(variant: str = "", seed: int = 0) -> Job:
    """Nexmark q1, prices of bids in another currency: source, map."""
    _refuse_variant("q1", variant)
    rate = EVENTS_PER_S * BID
    vertices = (
        Vertex(name="bids", service_ms=_at(2.0, rate), record_bytes=120),
        Vertex(name="convert", service_ms=_at(3.5, rate), scaling=MAPPER_SCALING, record_bytes=120),
    )
    return Job("q1", vertices, (Edge(0, 1),), rate)


def q3(variant: str = "", seed: int = 0) -> Job:
    """Nexmark q3, who sells in some states: auctions of one category joined with persons of three states."""
    _refuse_variant("q3", variant)
    rate = EVENTS_PER_S * (PERSON + AUCTION)
    auctions, persons = EVENTS_PER_S * AUCTION, EVENTS_PER_S * PERSON
    # One category of five and three states of six pass; half of the auctions that do find their seller:
    # 0.2 x 3 + 0.5 x 1 = 1.1 records in, 0.3 out.
    join_rate = 0.2 * auctions + 0.5 * persons
    vertices = (
        Vertex(name="auctions", service_ms=_at(2.5, auctions), input_share=3, record_bytes=300, scaling=0.95),
        Vertex(name="persons", service_ms=_at(1.5, persons), input_share=1, record_bytes=200, scaling=0.95),
        Vertex(
            name="join",
            service_ms=_at(3.0, join_rate),
            key_groups=KEY_GROUPS,
            state_mb=800,
            record_bytes=150,
            scaling=0.9,
        ),
        Vertex(name="sink", service_ms=_at(0.5, 0.27 * join_rate), record_bytes=150),
    )
    return Job("q3", vertices, (Edge(0, 2, 0.2), Edge(1, 2, 0.5), Edge(2, 3, 0.27)), rate)


def q5(variant: str = "", seed: int = 0) -> Job:
    """Nexmark q5, auctions with most bids: hopping window (10 s every 2 s), its maximum, joined back."""
    _refuse_variant("q5", variant)
    rate = EVENTS_PER_S * BID
    # The source counts ahead per key, which leaves a fifth; each of the 5 windows an auction is in yields a
    # count, and there are 20 records per auction and window: 0.25 out per record in.
    counts = 0.2 * rate
    results = 0.25 * counts
    vertices = (
        Vertex(name="bids", service_ms=_at(3.0, rate), record_bytes=60, scaling=0.95),
        Vertex(
            name="count",
            service_ms=_at(3.0, counts),
            key_groups=KEY_GROUPS,
            window_s=2,
            state_mb=300,
            record_bytes=60,
            scaling=0.9,
        ),
        # All counts of a window have one key, the window: a second subtask has nothing to do.
        Vertex(
            name="most",
            service_ms=_at(0.2, results),
            key_groups=KEY_GROUPS,
            hot_share=1.0,
            window_s=2,
            state_mb=1,
            record_bytes=40,
        ),
        Vertex(
            name="join",
            service_ms=_at(1.0, 1.01 * results),
            key_groups=KEY_GROUPS,
            state_mb=50,
            record_bytes=60,
        ),
        Vertex(name="sink", service_ms=_at(0.1, 0.01 * results), record_bytes=60),
    )
    edges = (Edge(0, 1, 0.2), Edge(1, 2, 0.25), Edge(1, 3, 0.25), Edge(2, 3, 0.01), Edge(3, 4, 0.01))
    return Job("q5", vertices, edges, rate)


def q8(variant: str = "", seed: int = 0) -> Job:
    """Nexmark q8, new persons who sell at once: two tumbling windows of 10 s, joined."""
    _refuse_variant("q8", variant)
    rate = EVENTS_PER_S * (PERSON + AUCTION)
    auctions, persons = EVENTS_PER_S * AUCTION, EVENTS_PER_S * PERSON
    # A person is new once; an auction's seller appears some three times per window.
    joined = 0.35 * auctions + 1.0 * persons
    keyed = {"key_groups": KEY_GROUPS, "window_s": 10.0, "scaling": 0.9}
    vertices = (
        Vertex(name="auctions", service_ms=_at(2.0, auctions), input_share=3, record_bytes=300),
        Vertex(name="persons", service_ms=_at(2.0, persons), input_share=1, record_bytes=200),
        Vertex(name="sellers", service_ms=_at(3.0, auctions), state_mb=100, record_bytes=40, **keyed),
        Vertex(name="newcomers", service_ms=_at(2.0, persons), state_mb=50, record_bytes=80, **keyed),
        # Light, because both windows are let out at once: 10 s of results at 10 % take 1 s.
        Vertex(name="join", service_ms=_at(0.1, joined), key_groups=KEY_GROUPS, state_mb=20, record_bytes=80),
        Vertex(name="sink", service_ms=_at(0.05, 0.4 * joined), record_bytes=80),
    )
    edges = (Edge(0, 2), Edge(1, 3), Edge(2, 4, 0.35), Edge(3, 4, 1.0), Edge(4, 5, 0.4))
    return Job("q8", vertices, edges, rate)


def q11(variant: str = "", seed: int = 0) -> Job:
    """Nexmark q11, bids of a person in a session: one keyed window with a hot key."""
    _refuse_variant("q11", variant)
    rate = EVENTS_PER_S * BID
    vertices = (
        Vertex(name="bids", service_ms=_at(2.0, rate), record_bytes=60, scaling=0.95),
        # Three in four bids come from a hot bidder, a new one every 0.5 s: 19 %. One subtask then has as
        # much to do as the whole vertex over 5.3, so more than that is of no use.
        Vertex(
            name="sessions",
            service_ms=_at(1.5, rate),
            key_groups=KEY_GROUPS,
            hot_share=round(_hot_share(4, PERSON), 3),
            window_s=10.0,
            state_mb=500,
            record_bytes=60,
            scaling=0.9,
        ),
        Vertex(name="sink", service_ms=_at(0.1, 0.02 * rate), record_bytes=60),
    )
    return Job("q11", vertices, (Edge(0, 1), Edge(1, 2, 0.02)), rate)


def q20(variant: str = "", seed: int = 0) -> Job:
    """Nexmark q20, bids with their auction: a wide stream joined with a thin one, and much state."""
    _refuse_variant("q20", variant)
    rate = EVENTS_PER_S * (AUCTION + BID)
    auctions, bids = EVENTS_PER_S * AUCTION, EVENTS_PER_S * BID
    joined = bids + 0.2 * auctions
    vertices = (
        Vertex(name="bids", service_ms=_at(2.5, bids), input_share=46, record_bytes=120, scaling=0.95),
        Vertex(name="auctions", service_ms=_at(1.0, auctions), input_share=3, record_bytes=300),
        Vertex(
            name="join",
            service_ms=_at(4.0, joined),
            key_groups=KEY_GROUPS,
            hot_share=round(_hot_share(2, AUCTION), 3),
            state_mb=2000,
            record_bytes=400,
            scaling=0.85,
        ),
        Vertex(name="sink", service_ms=_at(1.0, 0.2 * joined), record_bytes=400),
    )
    return Job("q20", vertices, (Edge(0, 2), Edge(1, 2, 0.2), Edge(2, 3, 0.2)), rate)


def flink_count(variant: str = "", seed: int = 0) -> Job:
    """The job measured on a real Flink: source, parse (1 ms), keyed count (7.18 ms), sink.

    A nominal 7.0 ms of parked service came out as 7.18 ms: busy 0.718 at 100 records/s with one subtask,
    4 / 7.18 ms = 557 records/s with four.
    """
    _refuse_variant("flink-count", variant)
    vertices = (
        Vertex(name="source", service_ms=0.05, record_bytes=40),
        Vertex(name="parse", service_ms=1.0, record_bytes=40),
        Vertex(name="count", service_ms=7.18, key_groups=KEY_GROUPS, state_mb=0.1, record_bytes=40),
        Vertex(name="sink", service_ms=0.05, record_bytes=40),
    )
    return Job("flink-count", vertices, (Edge(0, 1), Edge(1, 2), Edge(2, 3)), 150.0)


def _refuse_variant(name: str, variant: str) -> None:
    if variant:
        raise WorkloadError(f"job {name!r} has no variants, but {variant!r} was asked for")
