"""A plan as the comment of a pull request: Markdown in which nothing of the repository can act, within a size."""

from reconciler.core.comment.escape import code
from reconciler.core.comment.layout import LIMITS, Origin, comment, marker

__all__ = ["LIMITS", "Origin", "code", "comment", "marker"]
