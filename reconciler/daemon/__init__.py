"""The daemon: when passes happen, and how they end (DESIGN §12, level 4)."""
