"""Syntax trees of shell texts, by shfmt."""

from reconciler.adapters.shfmt.parser import ShfmtParser, installed

__all__ = ["ShfmtParser", "installed"]
