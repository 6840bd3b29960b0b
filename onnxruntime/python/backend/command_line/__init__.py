# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The command line. In each command's module, ``execute`` returns result and exit status, and ``show`` lays it out."""
