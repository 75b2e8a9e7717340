"""Learned autoscalers of other papers, compact and after their ideas, to be compared with ours.

Six of them, each in a file of its own; what they share is written once: small networks, tables and a memory
of what happened (`learning`), what is read out of a snapshot and what an interval was worth (`seeing`), and
how a rival begins from what it learned in practice and goes on learning service by service (`rival`).
They run on numpy alone. `practice` plays simulated services and writes the bundles they begin from.
"""
