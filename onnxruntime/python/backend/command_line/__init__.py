# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The command line.

In a command's module, ``execute`` returns result and status, and ``tables`` yields the tables of the result. The
docstring is the description in ``--help``.
"""
