"""DREAM: a long short-term memory over the history of the job as a whole, a shared trunk, no graph.

After Liu, Wang and Quan (ICPP 2020), deep reinforcement learning for elastic heterogeneous resources: a state
sequence, and heads that share part of their weights. That this is SURE's DREAM is inferred. Published, every
task has a head of its own; here one head is told what the vertex itself reports, so that it serves all jobs.
"""

from __future__ import annotations

import numpy as np

from trimtab.networks.array_tools import Tools
from trimtab.networks.layers import Parameters, dense, leaky, mlp, new_dense, new_mlp
from trimtab.networks.recurrent import last_memory_state, new_memory_cell
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.encoders import Encoded, Encoder, Inputs, over_vertices

__all__ = ["DREAM"]

_MEMORY = 64


def _new(random: np.random.Generator, features: int, design: Design) -> Parameters:
    return {
        "memory": new_memory_cell(random, features, _MEMORY),
        "own": new_dense(random, features, design.hidden),
        "trunk": new_mlp(random, (_MEMORY + design.hidden, design.hidden, design.hidden)),
    }


def _encode(parameters: Parameters, inputs: Inputs, design: Design, tools: Tools, draws: bool) -> Encoded:
    xp = tools.xp
    job = over_vertices(inputs.window, inputs.exists[:, None])
    real = xp.swapaxes(inputs.present, 0, 1)[..., None]
    memory = last_memory_state(parameters["memory"], xp.swapaxes(job, 0, 1), real, tools)
    own = leaky(dense(parameters["own"], inputs.window[:, -1]), xp)
    told = xp.broadcast_to(memory[:, None], (*own.shape[:2], memory.shape[-1]))
    return Encoded(leaky(mlp(parameters["trunk"], xp.concatenate([told, own], axis=-1), xp), xp))


DREAM = Encoder(_new, _encode)
