"""The registry adapter: the OCI distribution protocol over HTTP.

Belongs here: everything that speaks to a container registry. Does not belong here: deciding what to copy or
publish.
"""

from reconciler.adapters.registry.client import HttpRegistry

__all__ = ["HttpRegistry"]
