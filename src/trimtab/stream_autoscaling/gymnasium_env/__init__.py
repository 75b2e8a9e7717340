"""A streaming job for any library that speaks Gymnasium: how parallel each of its operators is.

>>> from trimtab.stream_autoscaling import TraceSettings, draw_trace, make_job
>>> from trimtab.stream_autoscaling.gymnasium_env import StreamAutoscalingEnv
>>> job = make_job("linear:3")
>>> env = StreamAutoscalingEnv(job, lambda seed: draw_trace(TraceSettings(), job, seed=seed))
>>> observation, info = env.reset(seed=0)
>>> action = env.action_space.sample(mask=info["action_mask"])
>>> observation, reward, terminated, truncated, info = env.step(action)
>>> observation.shape, terminated, truncated
((3, 29), False, False)
"""

from trimtab import gymnasium_base  # first: it says what to install
from trimtab.stream_autoscaling.gymnasium_env.single import StreamAutoscalingEnv, TraceSampler
from trimtab.stream_autoscaling.gymnasium_env.vector import StreamAutoscalingVectorEnv
from trimtab.stream_autoscaling.gymnasium_env.view import EnvSettings

__all__ = ["ENV_ID", "EnvSettings", "StreamAutoscalingEnv", "StreamAutoscalingVectorEnv"]
__all__ += ["TraceSampler", "register"]

ENV_ID = "trimtab/StreamAutoscaling-v0"


def register() -> str:
    """Make `gymnasium.make` and `gymnasium.make_vec` know the environment; returns its id.

    >>> register()
    'trimtab/StreamAutoscaling-v0'
    """
    single, many = f"{__name__}:StreamAutoscalingEnv", f"{__name__}:StreamAutoscalingVectorEnv"
    return gymnasium_base.registered(ENV_ID, single, many)
