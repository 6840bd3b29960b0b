# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The refused attributes of ``SessionOptions`` and ``RunOptions``."""

from __future__ import annotations

from onnxruntime.backend.allowlist.refusals.verdicts import (
    LOADS_LIBRARY,
    MODEL_TRUST,
    NEEDS_REFUSED,
    NO_EFFECT,
    OTHER_DOOR,
    UNSAFE_MEMORY,
    WRITES_FILES,
    WRONG_RESULTS,
    Refused,
)

SESSION_ATTRIBUTES: dict[str, Refused] = {
    "add_external_initializers": Refused(
        UNSAFE_MEMORY, "the session goes on using the memory of the arrays it is given"
    ),
    "add_external_initializers_from_files_in_memory": Refused(
        UNSAFE_MEMORY, "the session takes weights out of the caller's buffers at offsets that the model names"
    ),
    "add_free_dimension_override_by_denotation": Refused(
        NO_EFFECT, "ORT ignores a denotation that the model lacks; free_dimension_overrides takes names"
    ),
    "add_free_dimension_override_by_name": Refused(OTHER_DOOR, "sizes are named in free_dimension_overrides"),
    "add_initializer": Refused(UNSAFE_MEMORY, "the session goes on using the memory of the value it is given"),
    "add_provider": Refused(OTHER_DOOR, "execution providers are named in provider_options"),
    "add_provider_for_devices": Refused(OTHER_DOOR, "execution providers are named in provider_options"),
    "add_session_config_entry": Refused(OTHER_DOOR, "session config entries are named in session_config"),
    "clear_ep_context_data_read_func": Refused(NEEDS_REFUSED, "takes back what set_ep_context_data_read_func sets"),
    "enable_profiling": Refused(WRITES_FILES, "writes a trace of every run"),
    "get_session_config_entry": Refused(
        NO_EFFECT, "a method that only reads; see session_config of the prepared model"
    ),
    "has_providers": Refused(NO_EFFECT, "a method that only reads; see providers of the prepared model"),
    "optimized_model_filepath": Refused(WRITES_FILES, "saves the optimized model under any name"),
    "profile_file_prefix": Refused(WRITES_FILES, "names the file that enable_profiling writes"),
    "register_custom_ops_library": Refused(
        LOADS_LIBRARY,
        "loads a shared library and runs its code; the environment variable ORT_ONNX_BACKEND_CONFIG may name it, as "
        '{"extensions": [...]}',
    ),
    "set_ep_context_data_read_func": Refused(
        MODEL_TRUST, "lets a callback supply compiled code for the model's EP nodes"
    ),
    "set_load_cancellation_flag": Refused(NO_EFFECT, "stops the very load that is asked for; it is for another thread"),
    "set_provider_selection_policy": Refused(
        OTHER_DOOR, "lets ORT choose devices that nobody named; execution providers are named in provider_options"
    ),
    "set_provider_selection_policy_delegate": Refused(
        OTHER_DOOR, "lets a callback choose devices; execution providers are named in provider_options"
    ),
}

RUN_ATTRIBUTES: dict[str, Refused] = {
    "add_active_adapter": Refused(MODEL_TRUST, "computes with other weights, taken from an adapter"),
    "add_run_config_entry": Refused(OTHER_DOOR, "run config entries are named in run_config"),
    "get_run_config_entry": Refused(NO_EFFECT, "a method that only reads; see run_config of the prepared model"),
    "terminate": Refused(NO_EFFECT, "ends the run before it yields anything; it is for another thread"),
    # Only training builds have it; an inference build would drop it without a word.
    "training_mode": Refused(WRONG_RESULTS, "switches operators such as Dropout to training where the build has it"),
}
