# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The refused attributes of ``SessionOptions`` and ``RunOptions``."""

from __future__ import annotations

from onnxruntime.backend.refusals.verdicts import (
    LOADS_LIBRARY,
    MODEL_TRUST,
    NEEDS_REFUSED,
    NO_EFFECT,
    NO_USE,
    OTHER_ARGUMENT,
    UNSAFE_MEMORY,
    WRITES_FILES,
    WRONG_RESULTS,
    Refused,
)

SESSION_ATTRIBUTES: dict[str, Refused] = {
    "add_external_initializers": Refused(UNSAFE_MEMORY, "the session keeps using the memory of the arrays"),
    "add_external_initializers_from_files_in_memory": Refused(
        UNSAFE_MEMORY, "the session reads weights from the caller's buffers at offsets that the model specifies"
    ),
    "add_free_dimension_override_by_denotation": Refused(
        NO_EFFECT,
        "ORT ignores a denotation that the model does not have. Use free_dimension_overrides, which takes names",
    ),
    "add_free_dimension_override_by_name": Refused(OTHER_ARGUMENT, "pass the sizes in free_dimension_overrides"),
    "add_initializer": Refused(UNSAFE_MEMORY, "the session keeps using the memory of the value"),
    "add_provider": Refused(OTHER_ARGUMENT, "pass execution providers in provider_options"),
    "add_provider_for_devices": Refused(OTHER_ARGUMENT, "pass execution providers in provider_options"),
    "add_session_config_entry": Refused(OTHER_ARGUMENT, "pass session config entries in session_config"),
    "clear_ep_context_data_read_func": Refused(
        NEEDS_REFUSED, "removes the function that set_ep_context_data_read_func sets"
    ),
    "get_session_config_entry": Refused(
        NO_EFFECT, "a method that only reads. See session_config of the prepared model"
    ),
    "has_providers": Refused(NO_EFFECT, "a method that only reads. See providers of the prepared model"),
    "optimized_model_filepath": Refused(WRITES_FILES, "saves the optimized model to a file of any name"),
    "profile_file_prefix": Refused(WRITES_FILES, "specifies the file that enable_profiling writes"),
    "register_custom_ops_library": Refused(
        LOADS_LIBRARY,
        "loads a shared library and runs its code. The environment variable ORT_ONNX_BACKEND_CONFIG can "
        'specify it, as {"extensions": [...]}',
    ),
    "set_ep_context_data_read_func": Refused(
        MODEL_TRUST, "lets a callback supply compiled code for the model's EP nodes"
    ),
    "set_load_cancellation_flag": Refused(NO_USE, "lets another thread stop the creation of this session"),
    "set_provider_selection_policy": Refused(
        OTHER_ARGUMENT,
        "lets ORT choose devices that the caller does not specify. Pass execution providers in provider_options",
    ),
    "set_provider_selection_policy_delegate": Refused(
        OTHER_ARGUMENT, "lets a callback choose devices. Pass execution providers in provider_options"
    ),
}

RUN_ATTRIBUTES: dict[str, Refused] = {
    "add_active_adapter": Refused(MODEL_TRUST, "computes with other weights, from an adapter"),
    "add_run_config_entry": Refused(OTHER_ARGUMENT, "pass run config entries in run_config"),
    "get_run_config_entry": Refused(NO_EFFECT, "a method that only reads. See run_config of the prepared model"),
    # Only training builds have it. An inference build would silently ignore it.
    "training_mode": Refused(
        WRONG_RESULTS, "switches operators such as Dropout to training, in builds that support it"
    ),
}
