# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The command line, ``python -m onnxruntime.backend``. No other module imports this package.

``info``, ``options``, ``check``, ``inspect``, ``run`` and ``schema`` are the commands, a module each. ``add_to`` adds a
command's arguments, ``execute`` returns its result and exit status, and ``show`` lays the result out for people.
"""
