"""What a user did wrong, told as the command line tells it."""

from __future__ import annotations


class InputError(ValueError):
    """The input is wrong; ``str()`` is the line that the command line prints.

    Attributes
    ----------
    message : str
        What was expected and what was found.
    place : str
        Where: a JSON pointer such as ``/cluster/nodes``, "line 3, column 7", or the name of an
        option of the command line; empty where there is none.
    file : str
        The file, or empty.
    """

    def __init__(self, message: str, place: str = "", file: str = "") -> None:
        super().__init__(": ".join(part for part in (file, place, message) if part))
        self.message = message
        self.place = place
        self.file = file

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str, str]]:
        return InputError, (self.message, self.place, self.file)
