"""What a user did wrong, told as the command line tells it, with the names that Python has."""

from __future__ import annotations

import inspect
import re
import warnings

# Options of the command line whose argument has another name; of others the dashes are dropped.
_ARGUMENTS = {
    "--trace-ranks": "trace",
    "--algo": "algorithm",
    "--set": "settings",
    "--proto": "protocol",
    "-b": "first",
    "-e": "last",
    "-f": "factor",
}
_OPTION = re.compile(r"(?<![^\s\"'(])--?[a-z][a-z-]*(?=$|[\s\"'),.:;])")


def _argument(option: str) -> str:
    return _ARGUMENTS.get(option, option.lstrip("-").replace("-", "_"))


def warn(text: str) -> None:
    """Warn at the user's line: that of the nearest caller outside the package."""
    ours = (__package__, "functools")  # whose cached properties call ours
    level, frame = 1, inspect.currentframe()
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] in ours:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


class InputError(ValueError):
    """The input is wrong; ``str()`` is the line that the command line prints, but for its options.

    Attributes
    ----------
    message : str
        What was expected and what was found.
    place : str
        Where: a JSON pointer such as ``/cluster/nodes``, "line 3, column 7", or the name of an
        argument; empty where there is none.
    file : str
        The file, or empty.
    """

    def __init__(self, message: str, place: str = "", file: str = "") -> None:
        super().__init__(": ".join(part for part in (file, place, message) if part))
        self.message = message
        self.place = place
        self.file = file

    @classmethod
    def of_core(cls, message: str, place: str, file: str) -> InputError:
        """Make an error of the core, which speaks of the command line's options."""
        if _OPTION.fullmatch(place):
            return cls(
                _OPTION.sub(lambda found: _argument(found[0]), message), _argument(place), file
            )
        return cls(message, place, file)

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str, str]]:
        return InputError, (self.message, self.place, self.file)
