"""Commands behind `make bench-…`: each shows its bars, fails when one is missed, and keeps the result."""
