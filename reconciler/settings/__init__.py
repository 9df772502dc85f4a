"""The daemon's own configuration (DESIGN §11): frozen values, and reading them from a file."""

from reconciler.settings.file import read_settings
from reconciler.settings.values import (
    Address,
    BuilderSettings,
    BuilderType,
    ClusterMode,
    Delivery,
    RegistrySettings,
    Settings,
    Source,
    StorageDriver,
    Verification,
    Verify,
    Web,
    Webhook,
    WebhookType,
    WriteBack,
)

__all__ = [
    "Address",
    "BuilderSettings",
    "BuilderType",
    "ClusterMode",
    "Delivery",
    "RegistrySettings",
    "Settings",
    "Source",
    "StorageDriver",
    "Verification",
    "Verify",
    "Web",
    "Webhook",
    "WebhookType",
    "WriteBack",
    "read_settings",
]
