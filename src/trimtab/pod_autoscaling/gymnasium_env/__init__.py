"""A service for any library that speaks Gymnasium: its replicas, and the CPU and memory of its pods.

>>> from trimtab.pod_autoscaling import TraceSettings, draw_trace, make_application
>>> from trimtab.pod_autoscaling.gymnasium_env import EnvSettings, PodAutoscalingEnv
>>> web = make_application("web")
>>> calm = TraceSettings(mean_cores=1, hours=0.1)
>>> env = PodAutoscalingEnv(lambda seed: (web, draw_trace(calm, web, seed=seed)))
>>> observation, info = env.reset(seed=0)
>>> observation, reward, terminated, truncated, info = env.step([0.0, 0.0, 0.0])
>>> observation.shape, terminated, truncated
((48,), False, False)
"""

from trimtab import gymnasium_base  # first: it says what to install
from trimtab.pod_autoscaling.gymnasium_env.single import PodAutoscalingEnv, ServiceSampler
from trimtab.pod_autoscaling.gymnasium_env.view import EnvSettings, action_of_size, observed_numbers

__all__ = ["ENV_ID", "EnvSettings", "PodAutoscalingEnv", "ServiceSampler"]
__all__ += ["action_of_size", "observed_numbers", "register"]

ENV_ID = "trimtab/PodAutoscaling-v0"


def register() -> str:
    """Make `gymnasium.make` know the environment; returns its id.

    >>> register()
    'trimtab/PodAutoscaling-v0'
    """
    return gymnasium_base.registered(ENV_ID, f"{__name__}:PodAutoscalingEnv")
