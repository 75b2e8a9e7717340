"""Services that are cheap to simulate, for tests of learners that meet them one by one."""

from trimtab.learning.off_policy_settings import OffPolicySettings
from trimtab.pod_autoscaling.aware.services import Ground
from trimtab.pod_autoscaling.aware.task import AwareSettings
from trimtab.pod_autoscaling.deployment import Deployment


def cheap_settings(hours: float, training: OffPolicySettings) -> AwareSettings:
    """Few requests, no drift, and answers by which an untrained learner can do harm."""
    ground = Ground(
        traces=("diurnal",),
        hours=hours,
        least_cores=0.5,
        most_cores=1,
        most_rate=20,
        drift_share=0,
        start_spread=0,
    )
    return AwareSettings(
        ground=ground,
        deployment=Deployment(most_replicas=10),
        actions="logratio3",
        reward="aware",
        training=training,
    )
