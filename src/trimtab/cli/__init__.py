"""The command line: one file per verb, each loaded only when asked for."""
