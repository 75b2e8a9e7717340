"""`make bench-stream-inference`: how long a learned autoscaler takes to decide, and to learn, on one core.

Time does not depend on what was learned, so the networks here are as drawn; their sizes are those of the
presets. Decisions are made by numpy. A decision is everything from the snapshot to the parallelism: features,
DS2's suggestion, network, as served (the first layer of earlier intervals is kept, for every encoder) where
something may be done: the network of a job that can only hold is not asked. The network alone, over a window
it has not seen before, is shown beside it.

A learning step is the gradient of the loss of a few situations, by JAX. The published bound compares every
subgraph with the full graph, so learning reads both; without its mutual information it reads subgraphs alone.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace

# One thread of linear algebra, chosen before numpy is loaded: a live controller has one core.
if __name__ == "__main__" and os.environ.get("OPENBLAS_NUM_THREADS") != "1":
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    os.environ.update(JAX_PLATFORMS="cpu", XLA_FLAGS="--xla_cpu_multi_thread_eigen=false")
    os.execv(sys.executable, [sys.executable, "-m", "benchmarks.stream_inference", *sys.argv[1:]])

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.results import Row, at_least, at_most, finish
from trimtab.networks.array_tools import PLAIN
from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.job import graph_of
from trimtab.stream_autoscaling.problem import Snapshot
from trimtab.stream_autoscaling.simulator.simulator import StreamSimulator
from trimtab.stream_autoscaling.sure.agent import sure_agent
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.features import FeatureHistory, View
from trimtab.stream_autoscaling.sure.network import answers, new_network
from trimtab.stream_autoscaling.sure.policy import SureDecider
from trimtab.stream_autoscaling.workload.jobs import make_job
from trimtab.stream_autoscaling.workload.presets import TraceSettings, draw_trace

JOB = "large-1"
ENCODERS = {"sampler": "subgraph", "full": "full graph", "gru": "recurrent unit"}
DECISIONS = 120
SITUATIONS, LEARNING_STEPS = 4, 20


def snapshots(length: int) -> list[Snapshot]:
    """Consecutive moments of one job whose history is full."""
    job = make_job(JOB)
    trace = draw_trace(TraceSettings(), job, seed=1, part="test")
    simulator = StreamSimulator([job], [trace], Deployment(history=length), seeds=[1])
    taken = []
    for step in range(length + DECISIONS):
        simulator.step(simulator.snapshot().parallelism)
        if step >= length:
            seen = simulator.snapshot()
            taken.append(
                seen._replace(samples=type(seen.samples)._make(np.array(one) for one in seen.samples))
            )
    return taken


def decision_ms(design: Design, seen: list[Snapshot]) -> np.ndarray:
    """Whole decisions, as served, with the network asked every time."""
    decider = SureDecider(new_network(design, 0), design, graph_of([make_job(JOB)]))
    return timed(seen, decider.consider)


def network_ms(design: Design, seen: list[Snapshot]) -> np.ndarray:
    """The network alone: encoder and heads over the whole window."""
    parameters, history = new_network(design, 0), FeatureHistory(graph_of([make_job(JOB)]), design)
    views = [history.see(one).view for one in seen]
    full = [view._replace(present=np.ones_like(view.present)) for view in views]
    return timed(full, lambda view: answers(parameters, view, design, PLAIN))


def learning_ms(design: Design, seen: list[Snapshot]) -> np.ndarray:
    """Steps of learning: what the loss of a few situations says of every parameter."""
    history = FeatureHistory(graph_of([make_job(JOB)]), design)
    views = [history.see(one).view for one in seen[:SITUATIONS]]
    shown = {name: jnp.concatenate([getattr(view, name) for view in views]) for name in View._fields}
    shown |= {"present": jnp.ones_like(shown["present"]), "future": jnp.zeros((SITUATIONS, 8))}
    agent = sure_agent(design)
    # Commit to what the base rule suggests for every vertex: which choices these are takes no more time.
    action = jnp.zeros((SITUATIONS, 1 + shown["exists"].shape[1]), jnp.int32).at[:, 0].set(1)

    def loss(parameters):  # noqa: ANN001, ANN202
        judged = agent.judge(parameters, shown, action)
        bound = 0.0 if judged.auxiliary is None else judged.auxiliary.sum()
        return bound - judged.log_prob.sum() + jnp.square(judged.value).sum()

    gradient, parameters = jax.jit(jax.grad(loss)), agent.init(jax.random.key(0))
    return timed([parameters] * LEARNING_STEPS, lambda one: jax.block_until_ready(gradient(one)))


def learning_rows(length: int, seen: list[Snapshot]) -> list[Row]:
    """How much longer learning takes on the full graph; below 1 it is the sampler that takes longer."""
    usual = Design(history=length)
    full = np.median(learning_ms(replace(usual, history_encoder="full"), seen))
    rows = []
    for told, design in (("", usual), (", no mutual information", replace(usual, information_weight=0.0))):
        name = f"full graph / subgraph, L = {length}: median time of a learning step{told}"
        rows.append(Row(name, float(full / np.median(learning_ms(design, seen))), "none", True))
    return rows


def timed(things: list, work) -> np.ndarray:  # noqa: ANN001
    """Milliseconds for each; the first ten warm up."""
    taken = []
    for thing in things:
        started = time.perf_counter()
        work(thing)
        taken.append(1000 * (time.perf_counter() - started))
    return np.array(taken[10:])


def main() -> None:
    rows = []
    for length in (60, 240):
        seen = snapshots(length)
        usual = Design(history=length)
        whole = {name: decision_ms(replace(usual, history_encoder=name), seen) for name in ENCODERS}
        alone = {name: network_ms(replace(usual, history_encoder=name), seen) for name in ENCODERS}
        for name, told in ENCODERS.items():
            p95 = float(np.quantile(whole[name], 0.95))
            label = f"46 vertices, L = {length}, {told}: ms a decision, p95"
            barred = name == "sampler" and length == 60
            rows.append(at_most(label, p95, 20.0) if barred else Row(label, p95, "none", True))
        ratio = float(np.median(whole["full"]) / np.median(whole["sampler"]))
        label = f"full graph / subgraph, L = {length}: median time of a decision"
        rows.append(at_least(label, ratio, 3.0) if length == 240 else Row(label, ratio, "none", True))
        ratio = float(np.median(alone["full"]) / np.median(alone["sampler"]))
        rows.append(
            Row(f"network alone, full graph / subgraph, L = {length}: median time", ratio, "none", True)
        )
        rows += learning_rows(length, seen)
    finish("stream-inference", rows)


if __name__ == "__main__":
    main()
