"""Train an agent from the shelf (sb3-contrib's MaskablePPO) for about a minute, and judge it honestly.

pip install '.[agents]' in the checkout; another number of training steps may be given as an argument. A
minute is short: expect the agent to beat random choices and to lose against fair sharing.
"""

import sys

import gymnasium
import numpy as np
from gymnasium.wrappers import FilterObservation, FlattenObservation
from sb3_contrib import MaskablePPO

from trimtab.dag_scheduling import Cluster, Workload, WorkloadSettings, draw_workload, make_policy, simulate
from trimtab.dag_scheduling.gymnasium_env import EnvSettings, register

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
cluster = Cluster(executors=20)
jobs = WorkloadSettings(name="synthetic", jobs=8)


def sampler(seed: int) -> Workload:
    return draw_workload(jobs, executors=cluster.executors, seed=seed)


settings = EnvSettings(
    max_jobs=jobs.jobs, max_stages=20, limit_levels=4, flat_actions=True, reward_unit_ms=1e5
)
env = gymnasium.make(register(), sampler=sampler, cluster=cluster, settings=settings)
env = FlattenObservation(FilterObservation(env, ["features"]))
agent = MaskablePPO(
    "MlpPolicy", env, n_steps=1024, batch_size=256, n_epochs=4, gamma=0.999, ent_coef=0.01, seed=0
)
agent.learn(total_timesteps=steps)


def agent_jct_s(seed: int) -> float:
    observation, info = env.reset(seed=seed)
    ended = False
    while not ended:
        action, _ = agent.predict(observation, action_masks=info["action_mask"], deterministic=True)
        observation, _, ended, _, info = env.step(int(action))
    return info["metrics"]["mean_jct_s"]


unseen = range(2**31, 2**31 + 10)  # training draws its seeds below
rows = {f"MaskablePPO, {agent.num_timesteps:,} steps": [agent_jct_s(seed) for seed in unseen]}
for name in ("fair", "random"):
    rule = make_policy(name)
    rows[name] = [
        simulate(sampler(seed), rule, cluster, seed=seed).metrics()["mean_jct_s"] for seed in unseen
    ]
for name, times in rows.items():
    print(f"{name:28} mean JCT {np.mean(times):7.1f} s over {len(times)} unseen workloads")
