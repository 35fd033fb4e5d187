"""Memory of this machine."""

import os


def machine_memory() -> int | None:
    """Bytes of physical memory; None where the system does not report it."""
    if not hasattr(os, "sysconf"):
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
