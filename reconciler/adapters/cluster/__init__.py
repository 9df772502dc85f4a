"""A Kubernetes cluster: its API in raw JSON, its nodes and pools, and what is written there for people and jobs.

Belongs here: all that knows the `kubernetes` package; nothing of it leaves. Does not belong here: builds and their Jobs
(`adapters.builders`), and how nodes get an image (`adapters.delivery`); both get a `ports.cluster.Api`.
"""
