"""`make bench-decima-representation`: can the graph encoder find the critical path? (Decima, section 5.1)

The encoder is trained, supervised, to foretell the longest path below every stage of random DAGs. On DAGs
it has never seen, the stage with the largest answer should be the one where the longest path starts. The
paper's claim is that this needs a non-linearity outside the sum over children, because a sum of anything is
no maximum. The rival therefore has the very same parameters, all of them inside the sum:

    two levels       e_v = h(x_v) + g( sum of f(e_w) )
    single level     e_v = h(x_v) + sum of g( f(e_w) )

A DAG has several first stages (4.5 of 10 on average): a blind choice among them is right in 25 % of cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.results import Row, finish
from trimtab.core.statistics import Estimate, mean_interval
from trimtab.networks.graph_encoder import encode, longest_path, new_encoder
from trimtab.networks.layers import leaky, mlp, new_mlp

Encoder: TypeAlias = Callable[[Any, Any, Any, Any], Any]

TRAINING_SEEDS = range(10)
TEST_DAGS = 5_000
# Training draws its DAGs from seeds 0, 1, 2, ...
TEST_SEED = 1_000_000
STEPS_A_CALL = 100


@dataclass(frozen=True)
class Probe:
    """Size of the question and of the training."""

    stages: int = 10
    edge_chance: float = 0.2
    steps: int = 5_000
    batch: int = 64
    learning_rate: float = 0.005


def random_dags(random: np.random.Generator, count: int, probe: Probe) -> tuple[np.ndarray, np.ndarray]:
    """Lengths [count, stages], uniform below 1, and children [count, stages, stages], each pair by chance."""
    shape = (count, probe.stages, probe.stages)
    children = np.triu(random.random(shape) < probe.edge_chance, k=1).astype(np.float32)
    return random.random((count, probe.stages), dtype=np.float32), children


def single_level(parameters: Any, features: Any, children: Any, xp: Any) -> Any:
    """Embed every stage as `encode` does, but with both functions inside the sum."""
    own = mlp(parameters["own"], features, xp)
    embeddings: list[Any] = []
    messages: list[Any] = []
    for stage in reversed(range(features.shape[-2])):
        embedding = own[..., stage, :]
        if messages:
            below = xp.stack(messages, axis=-2)
            embedding = embedding + (children[..., stage, stage + 1 :, None] * below).sum(-2)
        inner = leaky(mlp(parameters["message"], embedding, xp), xp)
        messages.insert(0, leaky(mlp(parameters["combine"], inner, xp), xp))
        embeddings.insert(0, embedding)
    return xp.stack(embeddings, axis=-2)


def foretell(encoder: Encoder, parameters: Any, lengths: Any, children: Any, xp: Any) -> Any:
    """Longest path below every stage, as the network sees it: [..., stages]."""
    embeddings = encoder(parameters["encoder"], lengths[..., None], children, xp)
    return mlp(parameters["head"], embeddings, xp)[..., 0]


def trainer(encoder: Encoder, probe: Probe) -> Callable[[int], Any]:
    """Compile once; each call trains from another seed and gives the parameters back."""
    optimiser = optax.adam(optax.cosine_decay_schedule(probe.learning_rate, probe.steps))

    def loss(parameters: Any, lengths: jax.Array, children: jax.Array) -> jax.Array:
        error = foretell(encoder, parameters, lengths, children, jnp) - longest_path(lengths, children, jnp)
        return (error**2).mean()

    def step(state: Any, dags: Any) -> tuple[Any, None]:
        parameters, moments = state
        updates, moments = optimiser.update(jax.grad(loss)(parameters, *dags), moments)
        return (optax.apply_updates(parameters, updates), moments), None

    several_steps = jax.jit(lambda state, dags: jax.lax.scan(step, state, dags)[0])

    def train(seed: int) -> Any:
        random = np.random.default_rng(seed)
        parameters = {
            "encoder": new_encoder(random, features=1, hidden=16, size=16, inner=(32,)),
            "head": new_mlp(random, (16, 1)),
        }
        state = (parameters, optimiser.init(parameters))
        for _ in range(probe.steps // STEPS_A_CALL):
            dags = random_dags(random, STEPS_A_CALL * probe.batch, probe)
            state = several_steps(
                state, [part.reshape(STEPS_A_CALL, probe.batch, *part.shape[1:]) for part in dags]
            )
        return jax.tree.map(np.asarray, state[0])

    return train


def accuracy(encoder: Encoder, parameters: Any, probe: Probe, dags: int = TEST_DAGS) -> float:
    """Share of unseen DAGs whose longest path starts where the network says."""
    lengths, children = random_dags(np.random.default_rng(TEST_SEED), dags, probe)
    found = foretell(encoder, parameters, lengths, children, np).argmax(-1)
    return float((found == longest_path(lengths, children, np).argmax(-1)).mean())


def main() -> None:
    probe = Probe()
    shares = {}
    for name, encoder in (("two levels", encode), ("single level", single_level)):
        train = trainer(encoder, probe)
        shares[name] = np.array([accuracy(encoder, train(seed), probe) for seed in TRAINING_SEEDS])
    two, single = (mean_interval(share, seed=0) for share in shares.values())
    gain = mean_interval(shares["two levels"] - shares["single level"], seed=0)
    finish(
        "decima-representation",
        [
            _row("longest path found, two levels", two, "> 0.95", two.low > 0.95),
            _row("longest path found, single level", single, "< 0.85", single.high < 0.85),
            _row("gain by the outer non-linearity", gain, "> 0.1", gain.low > 0.1),
        ],
    )


def _row(name: str, estimate: Estimate, bar: str, holds: bool) -> Row:
    return Row(name, estimate.value, bar, holds, estimate.low, estimate.high)


if __name__ == "__main__":
    main()
