# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Write the functions that an execution provider requires of a library and that its objects do not have.

``python stubs.py PROVIDER REGEX OBJECT... > stubs.c``

A function that only configures or destroys does nothing. Any other function terminates the process with its name. The
functions are the provider's undefined symbols, and the cuDNN names in its data, which it looks up at run time.
"""

import re
import subprocess
import sys

CONFIGURES = r"cu\w+?(Set|Destroy|TrimTo|Unload)\w*"


def symbols(which: str, *files: str) -> set[str]:
    listed = subprocess.run(["nm", which, *files], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {line.split()[-1].partition("@")[0] for line in listed.splitlines() if line.strip()}


provider, names, *objects = sys.argv[1:]
wanted = symbols("--dynamic", provider)
if names.startswith("cudnn"):
    with open(provider, "rb") as file:
        wanted |= {name.decode() for name in re.findall(rb"\0(cudnn[A-Z][A-Za-z0-9_]+)(?=\0)", file.read())}

print('#include "software_cuda.h"')
for name in sorted(wanted - symbols("--defined-only", *objects)):
    if not re.fullmatch(names + r"\w*", name):
        continue
    if re.fullmatch(CONFIGURES, name):
        body = f'static int called; soft_nothing("{name}", &called); return 0;'
    else:
        body = f'soft_die("{name} is not implemented");'
    print(f"int {name}(void) {{ {body} }}")
