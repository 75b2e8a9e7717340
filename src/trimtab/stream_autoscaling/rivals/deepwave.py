"""DeepWave: messages from children to parents on the newest snapshot, no history.

After DeepWeave (Sun et al., IJCAI 2020), a coflow scheduler that reads the graph of a job with a graph neural
network and learns by policy gradient. SURE's table calls it DeepWave; that both are one is inferred.
"""

from __future__ import annotations

import numpy as np

from trimtab.networks.array_tools import Tools
from trimtab.networks.layers import Parameters, dense, leaky, new_dense
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.encoders import Encoded, Encoder, Inputs

__all__ = ["DEEPWAVE"]

_ROUNDS = 2


def _new(random: np.random.Generator, features: int, design: Design) -> Parameters:
    hidden = design.hidden
    return {
        "embed": new_dense(random, features, hidden),
        "rounds": [
            {"message": new_dense(random, hidden, hidden), "own": new_dense(random, hidden, hidden)}
            for _ in range(_ROUNDS)
        ],
    }


def _encode(parameters: Parameters, inputs: Inputs, design: Design, tools: Tools, draws: bool) -> Encoded:
    xp = tools.xp
    edges, exists = inputs.edges(xp), inputs.exists[..., None]
    state = leaky(dense(parameters["embed"], inputs.window[:, -1]), xp) * exists
    for layer in parameters["rounds"]:
        heard = edges @ dense(layer["message"], state)
        state = leaky(dense(layer["own"], state) + heard, xp) * exists
    return Encoded(state)


DEEPWAVE = Encoder(_new, _encode)
