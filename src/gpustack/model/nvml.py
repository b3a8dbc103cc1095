"""What the errors of NVML mean: rows of the facts that ``detect`` and ``verify`` read."""

from msgspec import Struct

SUBJECT = "driver-errors"
"""The subject of the facts whose table ``nvml`` has the rows."""

DAMAGED = "libnvidia-ml.so.1 or libcuda.so.1 is damaged"
"""What an error says where the library ends the program that loads it."""

DAMAGED_FIX = "`df -h` shows whether a disk is full; reinstall the driver, in a container on its host"


class NvmlError(Struct, frozen=True, kw_only=True):
    """A code with its name, its cause and its fix; ``texts`` are the words by which NVML and nvidia-smi report it."""

    code: int
    name: str
    cause: str
    fix: str
    texts: tuple[str, ...] = ()
    src: tuple[str, ...] = ()

    def is_said(self, words: str) -> bool:
        """Whether a message reports this code."""
        return any(text.casefold() in words.casefold() for text in self.texts)
