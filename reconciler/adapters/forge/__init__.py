"""The forge adapters: pull requests, comments and commit statuses on GitHub, GitLab, and Gitea or Forgejo.

Belongs here: everything that speaks to a forge. Does not belong here: what is said there, and when.
"""

from reconciler.adapters.forge.client import HttpForge
from reconciler.adapters.forge.dialect import Dialect
from reconciler.adapters.forge.gitea import Gitea
from reconciler.adapters.forge.github import GitHub
from reconciler.adapters.forge.gitlab import GitLab
from reconciler.adapters.forge.rehearsal import Rehearsal

__all__ = ["Dialect", "GitHub", "GitLab", "Gitea", "HttpForge", "Rehearsal"]
