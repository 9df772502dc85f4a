"""A control plane, and nodes that run pods, for tests of the agent."""

from tests.controlplane.fixtures import (  # noqa: F401
    namespace,
    plane,
    pytest_collection_finish,
)
from tests.nodes.fixtures import workers  # noqa: F401
