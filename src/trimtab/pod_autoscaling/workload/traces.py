"""What arrives, in requests per second: the rate traces that all wings share."""

from trimtab.rates.traces import DAY_S, Provenance, RateTrace, load_trace, save_trace

__all__ = ["DAY_S", "Provenance", "RateTrace", "load_trace", "save_trace"]
