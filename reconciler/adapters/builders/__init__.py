"""Builders: ways to turn a build request into a pushed single-architecture image."""
