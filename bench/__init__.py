"""Timing that a reader can trust: whole processes, interleaved rounds, ratios within one run. See README.md."""
