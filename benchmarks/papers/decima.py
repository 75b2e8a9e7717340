"""What Decima (SIGCOMM'19) and input-dependent baselines (ICLR'19) claim."""

from __future__ import annotations

from benchmarks.papers.claim import Claim

__all__ = ["CLAIMS", "HEADING"]

HEADING = """## Decima (SIGCOMM'19) and input-dependent baselines (ICLR'19)

Ratios are mean JCT over mean JCT on the same unseen workloads with the same luck; below 1 the learned policy
is better. In streams, in overload, on tiny instances and on the published profile the learned policy is a
[compact scheduler](decisions/015-compact-schedulers.md), and some rows have Decima's network beside it; in
all other rows it is the network, which in batches has the compact scheduler beside it. Of the components,
the ratio is without the part over with it: above 1 the part helps. The paper's numbers come from a Spark
cluster and from baselines of its time. Ours come from the simulator, and the bar is the best rule, tuned."""

CLAIMS = (
    Claim(
        "Batched arrivals: shorter average JCT than every baseline scheme",
        "21 % to 3.1x",
        "decima-batch",
        (
            "embedded: learned / best tuned capped SRPT",
            "embedded: compact / best tuned capped SRPT",
            "embedded: learned / best weighted fair",
            "embedded: learned / Fair",
            "embedded: learned / FIFO",
        ),
    ),
    Claim(
        "The same on the published TPC-H profile under the published rules",
        "21 % to 3.1x",
        "decima-batch",
        (
            "public profile: not measured",
            "public profile: learned / best tuned capped SRPT",
            "public profile: network / best tuned capped SRPT",
            "public profile: learned / best weighted fair",
            "public profile: learned / Fair",
            "public profile: learned / FIFO",
        ),
    ),
    Claim(
        "Continuous arrivals: lower average JCT than the best heuristic",
        "28 % lower, 1,000 jobs",
        "decima-stream",
        (
            "load 0.50, 200 jobs: learned / best",
            "load 0.70, 200 jobs: learned / best",
            "load 0.95, 200 jobs: learned / best",
            "load 0.85, 1,000 jobs: learned / best",
            "load 0.50, 200 jobs: network / best",
            "load 0.70, 200 jobs: network / best",
            "load 0.95, 200 jobs: network / best",
        ),
    ),
    Claim(
        "Overload: the gap widens",
        "2x better JCT",
        "decima-stream",
        ("an hour at 1.1 x capacity: learned / Fair", "load 1.1, 200 jobs: learned / Fair"),
    ),
    Claim(
        "Multi-resource, jobs keep coming: better than Tetris and Graphene\\*",
        "43 % (TPC-H) below Graphene\\*",
        "decima-multi",
        tuple(
            f"multi-resource stream, load {load}: compact / best of"
            for load in ("0.50", "0.70", "0.85", "0.95")
        ),
    ),
    Claim(
        "The same on a sample of Alibaba's trace of 2018, by policies that never met such a job",
        "32 % below Graphene\\*",
        "decima-alibaba",
        ("stream at load 0.85", "20 jobs at once"),
    ),
    Claim(
        "Multi-resource, all jobs at once (not in the paper)",
        "no number",
        "decima-multi",
        ("multi-resource: learned / best", "multi-resource: compact / best"),
    ),
    Claim(
        "Another objective gives another policy: makespan",
        "makespan 102.1 s instead of 119.6 s, average JCT 74.5 s instead of 67.3 s",
        "decima-multi",
        ("objective: makespan, trained", "objective: mean JCT, trained"),
    ),
    Claim(
        "Another system gives another policy: zero-cost migration",
        "average JCT 61.4 s instead of 67.3 s",
        "decima-multi",
        ("free moves: mean JCT / with the delay",),
    ),
    Claim(
        "Component: the parallelism limit",
        "without it unstable from 55 % load on",
        "decima-ablations",
        ("load 0.80: no limit head", "load 0.95: no limit head"),
    ),
    Claim(
        "Component: the graph encoder",
        "without it unstable as load grows",
        "decima-ablations",
        ("load 0.80: no graph encoder", "load 0.95: no graph encoder"),
    ),
    Claim(
        "Component: the input-dependent baseline",
        "without it 2x worse above 75 % load",
        "decima-ablations",
        ("load 0.80: no input-dependent baseline", "load 0.95: no input-dependent baseline"),
    ),
    Claim(
        "Component: training on continuous arrivals",
        "trained on batches only, it loses to the heuristic above 65 % load",
        "decima-ablations",
        ("load 0.80: trained on batches only", "load 0.95: trained on batches only"),
    ),
    Claim(
        "Two levels of non-linearity let the encoder find the critical path",
        "shown as a curve, no number",
        "decima-representation",
        ("longest path found, two levels", "longest path found, single level"),
    ),
    Claim(
        "Generalisation: one policy for all loads",
        "mixed training 77-82 s, tuned weighted fair 91 s, specialist 65 s",
        "decima-stream",
        (
            "load 0.50, 200 jobs: learned / best",
            "load 0.70, 200 jobs: learned / best",
            "load 0.95, 200 jobs: learned / best",
        ),
    ),
    Claim(
        "Generalisation: one policy for batches, streams, cluster sizes and other jobs (not in the paper)",
        "no number",
        "decima-one",
        ("compact-tpch / best rule", "compact-tpch / compact-tpch-"),
    ),
    Claim(
        "Generalisation: other jobs and another cluster than in training",
        "no number",
        "decima-batch",
        ("elsewhere:",),
    ),
    Claim(
        "Training speed",
        "average DAG completion time 166 s at first, 89 s after 30,000 iterations",
        "decima-speed",
        (
            "one H200: decisions per second in rollouts",
            "one H200: decisions per second with looking ahead",
            "one H200: past Fair",
            "one H200: past every",
            "two CPU cores: past Fair",
        ),
    ),
    Claim(
        "Inference speed",
        "below 15 ms a decision",
        "decima-serving",
        (
            "numpy, 20 jobs",
            "JAX, 20 jobs: ms a decision, p50",
            "JAX decides as numpy, or a tie",
            "compact, 20 jobs",
        ),
    ),
    Claim(
        "Missing features: no task durations",
        "still better than the best heuristic",
        "decima-multi",
        ("durations unknown: learned /",),
    ),
    Claim(
        "Optimality gap on small instances",
        "about 9 % from exhaustive search (as told by others)",
        "decima-optimality",
        ("learned / optimum, mean", "sjf-cp / optimum, mean", "decima-tpch-batch / optimum, mean"),
    ),
    Claim(
        "How short batches become for a search that knows the luck of every task (not in the paper)",
        "no number",
        "decima-hindsight",
        ("with hindsight /", "decima-tpch-batch /"),
    ),
    Claim(
        "How short batches become under a plan made with that knowledge (not in the paper)",
        "no number",
        "decima-plans",
        ("planned /", "decima-tpch-batch /"),
    ),
    Claim(
        "Input-dependent baselines reduce the variance of the gradient",
        "50x lower on two-server load balancing",
        "decima-variance",
        (
            "same-sequence baseline with the state",
            "same-sequence / state-value, two servers, half trained: one rollout",
            "same-sequence / state-value, two servers, random: one rollout",
            "same-sequence / state-value, two servers, trained: one rollout",
            "same-sequence / state-value, ten servers, trained: one rollout",
        ),
    ),
)
"""Paper's numbers: the talk and the papers of Decima (SIGCOMM'19) and of the baselines (ICLR'19)."""
