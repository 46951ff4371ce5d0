"""Nothing that is read or written depends on the locale of the process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# (language, charmap): a decimal comma; an i without a dot; a decimal separator of two bytes
LOCALES = [("de_DE", "UTF-8"), ("tr_TR", "ISO-8859-9"), ("ps_AF", "UTF-8")]

OUTPUTS = """
import json, locale, sys, tempfile
from pathlib import Path
if len(sys.argv) > 1:
    locale.setlocale(locale.LC_ALL, sys.argv[1])
    assert locale.localeconv()["decimal_point"] != "."
import paceline
scenario = {"cluster": "dgx-a100", "model": "resnet18", "run": {"iterations": 1},
            "training": {"batch_per_gpu": 8, "host": {}, "collective": {"algorithm": "RING"}}}
axes = [{"key": "/training/host/kernel_launch", "from": "1.5 us", "to": "4.5 us", "step": "1.5 us"},
        {"key": "/training/ddp/bucket_cap", "from": "1.5 MiB", "to": "6.2 MiB", "factor": 1.5}]
swept = paceline.sweep({"scenario": scenario, "axes": axes}, progress=False)
result = paceline.run(scenario)
sizes = [1024, 65536, 4194304, 67108864]
rows = "collective,size_bytes,time_us,ranks,nodes,nccl,algo\\n" + "".join(
    f"all_reduce,{size},{10 + size / 1e5},8,1,2.20,Ring\\n" for size in sizes)
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "m.csv"
    file.write_text(rows)
    profile = json.loads(paceline.fit(file, cluster="dgx-a100").text)
del profile["sources"]
print(json.dumps([swept.frame.to_csv(), result.data, profile]))
"""


def outputs(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", OUTPUTS, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def plain() -> str:
    return outputs()


@pytest.mark.parametrize(("language", "charmap"), LOCALES)
def test_no_locale_changes_a_sweep_a_run_or_a_fit(
    tmp_path: Path, plain: str, language: str, charmap: str
) -> None:
    name = f"{language}.{charmap}"
    built = subprocess.run(  # Debian: locales
        ["localedef", "-f", charmap, "-i", language, str(tmp_path / name)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    found = outputs(name, LOCPATH=str(tmp_path))
    assert json.loads(found) == json.loads(plain)
