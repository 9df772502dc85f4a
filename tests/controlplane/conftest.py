"""The control plane, for tests of itself."""

from tests.controlplane.fixtures import (  # noqa: F401
    namespace,
    nodes,
    plane,
    pytest_collection_finish,
    upstream_crds,
)
