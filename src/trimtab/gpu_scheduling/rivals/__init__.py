"""The learned schedulers that DAS (KDD'23) is compared with: DL2 and RIFLING.

Their bundles were made by practice (``python -m trimtab.gpu_scheduling.rivals.practice``); playing them takes
numpy alone.
"""
