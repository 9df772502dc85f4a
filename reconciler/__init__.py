"""A GitOps reconciler for machine OS images on clusters with mixed CPU architectures."""

__version__ = "0.1.0"
