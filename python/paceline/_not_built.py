"""What is said where the extension module can't be loaded."""

from __future__ import annotations

import platform
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

_LIBRARIES = (  # of Debian 12
    "libgoogle-glog0v6 libcholmod3 libcxsparse3 liblapack3 libatlas3-base libcsv3 libpugixml1v5"
)


def explained(error: ImportError) -> ImportError:
    """Say what is missing, and the cure."""
    folder = Path(__file__).parent
    wanted = f"_core{EXTENSION_SUFFIXES[0]}"
    built = [path.name for path in folder.glob("_core.*.so")]
    cure = "with this Python, in Paceline's folder: pip install ."
    if wanted in built:
        return ImportError(f"{error}. Debian: apt install {_LIBRARIES}")
    if built:
        python = f"{platform.python_implementation()} {platform.python_version()}"
        return ImportError(
            f"paceline was built for another Python: expected {wanted} for {python}, "
            f"found {', '.join(built)} in {folder}; {cure}"
        )
    return ImportError(f"paceline isn't built: expected {wanted} in {folder}, found none; {cure}")
