# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The command line, ``python -m onnxruntime.backend``. No other module imports this package.

Each command is a module: ``execute`` returns its result and exit status, and ``show`` lays the result out for people.
"""
