"""Containerfiles: what one says, and what it comes to for one architecture and one build context."""

from reconciler.core.containerfile.context import ContextTree
from reconciler.core.containerfile.ignore import IgnoreRules, effective_ignore
from reconciler.core.containerfile.parser import parse
from reconciler.core.containerfile.recipe import Recipe, Step
from reconciler.core.containerfile.shells import ASSUMED, Trees
from reconciler.core.containerfile.specialise import specialise
from reconciler.core.containerfile.syntax import Containerfile, Heredoc, Instruction, Keyword, StageText

__all__ = [
    "ASSUMED",
    "Containerfile",
    "ContextTree",
    "Heredoc",
    "IgnoreRules",
    "Instruction",
    "Keyword",
    "Recipe",
    "StageText",
    "Step",
    "Trees",
    "effective_ignore",
    "parse",
    "specialise",
]
