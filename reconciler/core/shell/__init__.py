"""Shell text of a RUN, partially evaluated for one architecture. Pure: the syntax tree comes from a port."""

from reconciler.core.shell.limits import MAX_BYTES, bounded
from reconciler.core.shell.partial import Known, may_replace_probes, specialise, worth_parsing
from reconciler.core.shell.tree import Dialect

__all__ = ["MAX_BYTES", "Dialect", "Known", "bounded", "may_replace_probes", "specialise", "worth_parsing"]
