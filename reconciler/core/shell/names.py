"""Names that mean something to a shell: builtins, reserved words, variables with a life of their own.

Belongs here: closed lists, for dash, bash, busybox ash and the Korn shells together. Does not belong here: what is
done about them (`gate`, `evaluate`).
"""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


HARMLESS: Final = _words(
    """
    [ test true false : echo printf cd pwd exit set export umask ulimit wait kill shift break continue
    command
    """
)
"""Builtins that are read; some of them only in some forms. All other builtins, and these words, stop the reading."""

DANGEROUS: Final = _words(
    """
    . source eval exec trap read mapfile readarray getopts let declare typeset local readonly unset
    alias unalias builtin enable shopt return times fc history bind complete compgen compopt caller
    logout suspend disown jobs bg fg dirs pushd popd hash type coproc function select time newgrp login
    nameref integer float print whence autoload chdir setopt unsetopt emulate zmodload rehash unhash
    functions unfunction vared zle compound enum repeat foreach namespace inlib global
    setgroups bltin if then else elif fi case esac for while until do done in ! { }
    """
)
"""Commands that change the shell itself, and words that are commands to one shell and syntax to another."""

SPECIAL_PARAMETERS: Final = _words(
    """
    ? _ - LINENO PIPESTATUS pipestatus FUNCNAME HISTCMD ERRNO SHELLOPTS
    """
)
"""Parameters by which a text observes how it is run."""

UNSTABLE: Final = _words(
    """
    _ PATH PWD OLDPWD HOME IFS OPTIND OPTARG OPTERR REPLY MAPFILE COPROC RANDOM SRANDOM SECONDS LINENO
    LINES COLUMNS UID EUID PPID GROUPS DIRSTACK FUNCNAME FUNCNEST HISTCMD HISTFILE HOSTNAME HOSTTYPE
    MACHTYPE OSTYPE SHLVL SHELL SHELLOPTS TERM PS1 PS2 PS3 PS4 ENV CDPATH GLOBIGNORE GLOBSORT EXECIGNORE
    FIGNORE INPUTRC MAIL MAILCHECK MAILPATH POSIXLY_CORRECT POSIX_PEDANTIC PROMPT_COMMAND PROMPT_DIRTRIM
    TIMEFORMAT TMOUT TMPDIR EPOCHSECONDS EPOCHREALTIME ERRNO KSH_VERSION CHILD_MAX FPATH PIPESTATUS
    NLSPATH VISUAL EDITOR FCEDIT
    """
)
"""Variables that a shell sets or reads itself: never known."""

_CHANGING: Final = _words(
    """
    IFS ENV PS4 SHELLOPTS POSIXLY_CORRECT POSIX_PEDANTIC GLOBIGNORE GLOBSORT EXECIGNORE FPATH FUNCNEST
    LINENO OPTIND OPTARG RANDOM SECONDS PPID UID EUID TIMEFORMAT TMOUT _ MAPFILE COPROC REPLY
    """
)


def changes_the_shell(name: str) -> bool:
    """Whether a variable of this name changes how a shell reads or runs a text."""
    return name in _CHANGING or name.startswith(("BASH", "KSH", "ZSH", "LD_"))


def can_be_known(name: str) -> bool:
    """Whether a shell leaves a variable of this name alone."""
    return name not in UNSTABLE and not changes_the_shell(name)
