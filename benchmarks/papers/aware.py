"""What AWARE (ATC'23) claims."""

from __future__ import annotations

from benchmarks.papers.claim import Claim

__all__ = ["CLAIMS", "HEADING"]

HEADING = """## AWARE (ATC'23)

The paper's numbers come from a Kubernetes cluster with applications, limits and loads that are not published;
ours from the simulator, on applications that training had no part of. *Violations* are requests that were
late or failed."""

CLAIMS = (
    Claim(
        "Adaptation to an application nobody has seen: episodes until a policy is as good as one of its own",
        "5.5x fewer than TL, 4.6x fewer than TL+",
        "pod-adaptation",
        ("transfer / meta: median", "transfer-plus / meta: median", "pooled / meta: median"),
    ),
    Claim(
        "Adaptation: CPU cycles spent on retraining",
        "68-72 % saved",
        "pod-adaptation",
        ("meta: CPU seconds", "transfer: CPU seconds", "transfer-plus: CPU seconds"),
    ),
    Claim(
        "Adaptation: deficit of CPU and memory utilisation, and violations, while adapting",
        "4.6x and 6.2x smaller, 7.1x fewer",
        "pod-adaptation",
        (
            "meta: reward of the first",
            "transfer: reward of the first",
            "meta: reward of the last",
            "while adapting",
        ),
    ),
    Claim(
        "A new application without retraining loses reward",
        "45.6 %",
        "pod-adaptation",
        ("meta: zero-shot drop", "transfer: zero-shot drop", "transfer-plus: zero-shot drop"),
    ),
    Claim(
        "Embeddings can be interpreted",
        "shown as a figure",
        "pod-adaptation",
        ("meta: R2 of", "meta: AUC"),
    ),
    Claim(
        "Component: the encoder of contexts, and its mistake in the released code: a recurrence over "
        "features and not over time (intervals are over applications, of three trainings each)",
        "no number",
        "pod-ablations",
        ("encoder gru less", "encoder bidirectional less", "encoder features less"),
    ),
    Claim(
        "Sensitivity to the weight of utilisation in the reward (no number in the paper; 0.3 in the released "
        "code)",
        "no number",
        "pod-ablations",
        (
            "weight 0.1: best policy less",
            "weight 0.1: deviation",
            "weight 0.1: pairs",
            "weight 0.3: best policy less",
            "weight 0.3: deviation",
            "weight 0.5: best policy less",
            "weight 0.5: deviation",
            "weight 0.5: pairs",
            "trained with weight 0.1: late",
            "trained with weight 0.3: late",
            "trained with weight 0.5: late",
            "trained with weight 0.1 / with",
            "trained with weight 0.5 / with",
        ),
    ),
    Claim(
        "Bootstrapping: fewer violations than learning online from nothing",
        "16.9x",
        "pod-bootstrap",
        ("violations with bootstrap", "violations without bootstrap"),
    ),
    Claim(
        "Bootstrapping: higher CPU and memory utilisation than learning online from nothing",
        "47.5 % and 32.2 % (talk; 39.2 % in the abstract)",
        "pod-bootstrap",
        (
            "CPU utilisation without bootstrap, of that",
            "memory utilisation without bootstrap, of that",
            "with bootstrap: mean reward",
            "without bootstrap: mean reward",
            "heuristic alone: mean reward",
        ),
    ),
    Claim(
        "Bootstrapping: no less utilisation than the rule it starts beside (not in the paper)",
        "no number",
        "pod-bootstrap",
        ("CPU utilisation with bootstrap", "memory utilisation with bootstrap"),
    ),
    Claim(
        "Early training without bootstrapping violates more than the heuristic",
        "56.1x, 22.2x, 12.7x, 10.1x in episodes 1-100, ..., 301-400",
        "pod-bootstrap",
        ("EP",),
    ),
    Claim(
        "Serving under a changing workload: loss of reward",
        "below 3.6 %",
        "pod-drift",
        ("aware: reward lost", "of it, what services lose", "and what is lost against these"),
    ),
    Claim(
        "A workload change without retraining loses reward; retraining gains it back",
        "21.8 % lost; 9.6 % CPU and 14.8 % memory utilisation gained, 3.1x fewer violations",
        "pod-drift",
        ("steady policy", "retrained services"),
    ),
    Claim(
        "Changes are found",
        "no number",
        "pod-drift",
        ("false alarms", "share of them found", "their median delay", "longest delay"),
    ),
    Claim(
        "Better than the rules of Kubernetes: core-hours at no more late requests",
        "no number (FIRM: up to 62 % less CPU)",
        "pod-learning",
        (
            "aware / hpa-70: share of late requests",
            "aware / hpa-50: core-hours",
            "aware / hpa-70: core-hours",
            "aware / hpa tuned for each workload: core-hours",
            "aware / mpc with the true work: core-hours",
            "aware / mpc with 1.5 x the work: the better",
            "aware / mpc with the work / 1.5: the better",
            "aware / mpc after the work grew by half: the better",
            "aware: memory used over memory held, after",
            "aware: pods that ran out of memory after",
        ),
    ),
    Claim(
        "How much of the memory could be used by whoever knows its peaks (not in the paper)",
        "no number",
        "pod-foresight",
        ("aware: memory used, ", "aware: limits by", "hpa-70: memory used, ", "hpa-70: limits by"),
    ),
)
"""Paper's numbers: the talk on AWARE (ATC'23) and its abstract."""
