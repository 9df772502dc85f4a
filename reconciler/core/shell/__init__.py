"""Shell text of a RUN, partially evaluated for one architecture. Pure: the syntax tree comes from a port."""

from reconciler.core.shell.blanks import single_blanks
from reconciler.core.shell.limits import MAX_BYTES, bounded
from reconciler.core.shell.partial import Known, specialise, unsettling, worth_parsing
from reconciler.core.shell.replaced import PROBES, SHELLS, replaced
from reconciler.core.shell.tree import Dialect

__all__ = [
    "MAX_BYTES",
    "PROBES",
    "SHELLS",
    "Dialect",
    "Known",
    "bounded",
    "replaced",
    "single_blanks",
    "specialise",
    "unsettling",
    "worth_parsing",
]
