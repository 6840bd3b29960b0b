# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Run the programs of docs/ort-defects.md on the installed ORT, each in a process of its own.

``python tools/python/ort_defects.py [TEXT]`` runs those whose heading holds TEXT and prints how each ended and the last
lines that it wrote. What it means, the document says: a program may need an EP that is not here.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "ort-defects.md"
_SECONDS = 120


def main(text: str = "") -> None:
    for section in re.split(r"^### ", DOCUMENT.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        heading = section.partition("\n")[0]
        if text.lower() not in heading.lower():
            continue
        for program in re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL):
            print(f"{heading}\n  {_run(program)}", flush=True)


def _run(program: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", program]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    try:
        ended = subprocess.run(command, check=False, timeout=_SECONDS, **streams)
    except subprocess.TimeoutExpired:
        return f"not ended after {_SECONDS} s"
    lines = [line.strip()[:140] for line in ended.stdout.splitlines() if line.strip("\x1b[m \n")]
    return "\n  ".join([f"ended with {ended.returncode}", *lines[-4:]])


if __name__ == "__main__":
    main(*sys.argv[1:2])
