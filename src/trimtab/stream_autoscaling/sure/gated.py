"""The simple rival inside SURE: a gated recurrent unit for each vertex, then one exchange with neighbours.

It walks through the whole window at every decision, as in training: a state carried on for longer than that
would have seen more than any state it was trained with.
"""

from __future__ import annotations

import numpy as np

from trimtab.networks.array_tools import Tools
from trimtab.networks.layers import Parameters, dense, leaky, mlp, new_dense, new_mlp
from trimtab.networks.recurrent import last_gated_state, new_gated_unit
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.encoders import Encoded, Encoder, Inputs, embedded

__all__ = ["GRU"]


def _new(random: np.random.Generator, features: int, design: Design) -> Parameters:
    hidden = design.hidden
    return {
        "embed": new_dense(random, features, hidden),
        "unit": new_gated_unit(random, hidden, hidden),
        "to_parents": new_dense(random, hidden, hidden),
        "to_children": new_dense(random, hidden, hidden),
        "combine": new_mlp(random, (3 * hidden, hidden, hidden)),
    }


def _encode(parameters: Parameters, inputs: Inputs, design: Design, tools: Tools, draws: bool) -> Encoded:
    xp = tools.xp
    sequence = xp.swapaxes(embedded(parameters, inputs, xp), 0, 1)
    real = xp.swapaxes(inputs.present, 0, 1)[:, :, None, None]
    state = last_gated_state(parameters["unit"], sequence, real, tools)
    edges = inputs.edges(xp)
    exists = inputs.exists[..., None]
    from_children = edges @ (leaky(dense(parameters["to_parents"], state), xp) * exists)
    from_parents = xp.swapaxes(edges, 1, 2) @ (leaky(dense(parameters["to_children"], state), xp) * exists)
    heard = xp.concatenate([state, from_children, from_parents], axis=-1)
    return Encoded(state + mlp(parameters["combine"], heard, xp))


GRU = Encoder(_new, _encode, embeds=True)
