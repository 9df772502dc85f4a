"""A plan as the comment of a pull request: Markdown in which nothing of the repository can act, within a size."""

from reconciler.core.comment.escape import code
from reconciler.core.comment.layout import FOOT, LIMITS, Origin, comment, marker, whose
from reconciler.core.comment.notes import NOTES, noted

__all__ = ["FOOT", "LIMITS", "NOTES", "Origin", "code", "comment", "marker", "noted", "whose"]
