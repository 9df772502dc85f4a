"""Syntax trees of shell texts, by shfmt."""

from reconciler.adapters.shfmt.parser import ShfmtParser, edition, installed

__all__ = ["ShfmtParser", "edition", "installed"]
