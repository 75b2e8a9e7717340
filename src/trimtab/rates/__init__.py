"""What arrives per second: traces, their split by time, made-up ones, and importers that all wings share."""
