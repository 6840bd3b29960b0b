# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Adds the settings of the operator to a permit: the part "trusted" of ``ORT_ONNX_BACKEND_CONFIG``.

ORT receives them as they are. This part cannot contain a setting that callers may set: the backend must know its value,
for example to capture graphs. So no setting has two values. No report contains a value of this part.
"""

import os
import re
from collections.abc import Iterator, Mapping

from onnxruntime import SessionOptions
from onnxruntime.backend.allowlist import suggestions
from onnxruntime.backend.allowlist.facts import Process
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.allowlist.rules import NOTHING
from onnxruntime.backend.allowlist.tables import TRUSTED
from onnxruntime.backend.environment import configuration
from onnxruntime.backend.environment.narrowing import tables_of
from onnxruntime.backend.errors import ENVIRONMENT, type_name, warn_each


def add(permit: Permit, part: Mapping[str, dict], process: Process) -> Permit:
    """Return a permit with the settings of this part. Warn about an EP that nothing specifies."""
    problems = [*faults(part, process)]
    if os.environ.get("ORT_LOAD_CONFIG_FROM_MODEL") == "1":
        problems.append(f"{TRUSTED}: ORT uses the options of the model, because ORT_LOAD_CONFIG_FROM_MODEL=1")
    warnings = []
    used = {}
    for ep, options in part.get("provider_options", NOTHING).items():
        place = f"{TRUSTED}: provider_options[{ep!r}]"
        if ep not in process.kinds:
            problems.append(f"{place}: the execution provider is not available in this process")
        elif permit.explicit and ep in permit.providers:
            used[ep] = options
        else:
            warnings.append(f"{place} has no effect: provider_options does not specify this execution provider")
    if problems:
        raise RuntimeError(f"the environment variable {ENVIRONMENT} cannot be used: {problems[0]}")
    trusted = {**part, "provider_options": used}
    return permit._replace(trusted=trusted, warnings=permit.warnings + warn_each(warnings))


def faults(part: Mapping[str, dict], process: Process) -> Iterator[str]:
    """Return a sentence about each setting that this part cannot contain."""
    for place, value in configuration.places(part):
        key = place.key or ""
        name = key.partition("\0")[0]  # as ORT reads it
        rules = [table[name] for table in tables_of(place, process)]
        of_callers = any(rules) and name != "enable_profiling"  # they may only switch it off
        sets_option = name.startswith("ep.") and suggestions.with_option(name.rpartition(".")[2])
        # ORT would log the value of an entry that the option of an EP overwrites.
        entry = f"ep.{place.provider.lower()}.{name}" if place.provider else ""
        if of_callers or sets_option:
            yield f"{TRUSTED}: {place} is a setting that callers may set. Specify it next to this part"
        elif not name or re.search("[\ud800-\udfff]", f"{key}{value}"):
            yield f"{TRUSTED}: {place} must have a name, and text that UTF-8 can represent"
        elif place.keyword == "session_options" and not _is_attribute(key, value):
            expected = "an attribute of SessionOptions, with a value of its type"
            yield f"{TRUSTED}: {place} must be {expected}, not {type_name(value)}"
        elif place.keyword != "session_options" and type(value) is not str:
            yield f"{TRUSTED}: {place} must be text, not {type_name(value)}"
        elif entry in part.get("session_config", NOTHING):
            yield f"{TRUSTED}: {place} is also in session_config. Specify it once"


def _is_attribute(name: str, value: object) -> bool:
    """Return whether ``SessionOptions`` has an attribute of the type of a value."""
    is_attribute = isinstance(getattr(SessionOptions, name, None), property)
    return is_attribute and type(value) is type(getattr(SessionOptions(), name))
