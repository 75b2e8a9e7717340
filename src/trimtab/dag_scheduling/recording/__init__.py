"""Record our own history: TPC-H queries on a local Spark, turned into a wave profile."""

from trimtab.dag_scheduling.recording.errors import RecordingError
from trimtab.dag_scheduling.recording.tpch import record_tpch
from trimtab.dag_scheduling.recording.wave_profile import build_profile, write_profile

__all__ = ["RecordingError", "build_profile", "record_tpch", "write_profile"]
