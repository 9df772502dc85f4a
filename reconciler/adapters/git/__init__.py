"""The Git adapter: reading repositories, mirroring a remote one, and writing back to it.

`objects` reads any local repository, `mirror` keeps a bare mirror of a remote and pushes to it, `worktree`
reads a folder as its author has it. Everything runs the `git` program through `command`, which knows how to
do so safely.
"""
