"""Adapters: each implements one port with one outside tool. They do not know each other."""
