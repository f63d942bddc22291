"""Benchmarks of boundrec: against the paper, against the machine's own limits, against itself."""
