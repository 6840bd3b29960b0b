# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The commits of the series that ``backend_patch.py`` writes: their messages and files."""

from __future__ import annotations

from typing import NamedTuple

_TEST = "onnxruntime_test_python_backend_"


class Step(NamedTuple):
    """One commit of the series.

    :param title: its subject.
    :param text: the content that it adds, and why.
    :param product: patterns of files below the folder of the backend.
    :param tests: patterns of test files, without their common beginning or ``backend_test_``.
    """

    title: str
    text: str
    product: tuple[str, ...]
    tests: tuple[str, ...]


_COMMANDS_OF_SETTINGS = (
    "__init__",
    "check",
    "configurations",
    "main",
    "options",
    "output",
    "schema",
    "value_schemas",
)
STEPS = (
    Step(
        "Backend API: tables of the EP options, session config entries and run config entries that callers may set",
        """
        Callers of the backend can be untrusted clients of an application. The tables say which option of which EP,
        which config entry and which attribute a caller may set, and to which values. All other names are refused.
        Nothing uses the tables yet. They come first, because they decide what the API can do.
        """,
        ("allowlist/*", "errors.py", "keywords.py", "optional_parts.py", "provider_names.py", "request.py"),
        (
            "allowlist_look_up.py",
            "allowlist_order.py",
            "backend_test_allowlist.py",
            "backend_test_hostile_values.py",
            "backend_test_models.py",
        ),
    ),
    Step(
        "Backend API: provider_options, session_config and run_config",
        """
        prepare, run and rep.run accept the three configurations (issue 28209), on the CPU EP, on CUDA, and on each EP
        that needs no code of its own. The backend applies permitted settings and compares them with the values that
        ORT reports. Replaces the stock backend and keeps its behavior. Graph capture, OpenVINO and WebGPU are refused
        until a later step adds their part.
        """,
        ("__init__.py", "backend.py", "backend_rep.py", "py.typed", "runs/*", "session/*"),
        (
            "allowlist_attributes.py",
            "allowlist_providers.py",
            "backend_rep.py",
            "backend_stock.py",
            "backend_test_children.py",
            "backend_test_execution_providers.py",
            "backend_test_inputs.py",
            "backend_test_processes.py",
            "backend_test_threads.py",
            "errors.py",
            "configured.py",
            "request.py",
            "runs_inputs.py",
            "runs_outputs.py",
            "runs_run_options.py",
            "session_opening.py",
            "session_presence.py",
        ),
    ),
    Step(
        "Backend API: tests of each config entry, of conversions, and of failures on the CPU EP",
        """
        Observes an effect of each permitted config entry and attribute. Checks the values of each ONNX type, limits,
        broken models, and hostile settings. They are apart from the API because of their size.
        """,
        (),
        (
            "allowlist_con*.py",
            "allowlist_value_kinds.py",
            "backend_test_observable_models.py",
            "exploits.py",
            "runs_values.py",
            "session_verification.py",
            "session_failures.py",
            "session_model_file.py",
            "session_model_versions.py",
        ),
    ),
    Step(
        "Backend API: sizes for the free dimensions of a model",
        """
        free_dimension_overrides={name: size} fixes symbolic dimensions of the model's inputs. Some EPs run only models
        with fixed dimensions.
        """,
        ("free_dimensions.py",),
        ("free_dimensions.py",),
    ),
    Step(
        "Backend API: time limits and cancellation of runs",
        """
        rep.run(inputs, timeout=seconds, cancellation=...) ends a run that takes too long or that another thread ends.
        One thread keeps the deadlines of all runs.
        """,
        ("limits.py",),
        ("limits.py",),
    ),
    Step(
        "Backend API: reasons for refusals, and suggestions for misspelt names",
        """
        Every name of ORT that is not permitted was reviewed. An error contains the reason, or a permitted name that
        is similar. Safety does not depend on this part: without it, the same names are refused.
        """,
        ("refusals/*",),
        ("allowlist_properties*.py", "backend_test_refused_names.py", "exploits_kinds.py", "refusals*.py"),
    ),
    Step(
        "Backend API: a configuration in an environment variable",
        """
        ORT_ONNX_BACKEND_CONFIG configures every model that a process prepares, and can narrow the allowlist for
        callers. Programs such as ONNX's conformance tests call prepare without a configuration.
        """,
        ("environment/*",),
        ("environment*.py",),
    ),
    Step(
        "Backend API: plugin EPs and custom operators from the environment",
        """
        The environment variable can specify libraries, which are code. Callers cannot.
        """,
        ("libraries/*",),
        ("libraries_*.py", "plugins.py"),
    ),
    Step(
        "Backend API: a lock for sessions that share a device",
        """
        Permits WebGPU, whose sessions may not be created, run or released at the same time. A later step uses the
        same lock for graph capture on CUDA.
        """,
        ("locks.py",),
        ("backend_test_locks.py", "locks*.py", "webgpu.py", "with_software_gpu.sh"),
    ),
    Step(
        "Backend API: OpenVINO",
        """
        Permits the OpenVINO EP. Decides which runs may be parallel, replaces a session after a failed run, and
        refuses models for which the EP is known to return wrong values.
        """,
        ("openvino/*",),
        ("openvino*.py", "backend_openvino_*.py", "backend_parallel_operators.py"),
    ),
    Step(
        "Backend API: graph capture",
        """
        Captures and replays graphs on CUDA, TensorRT and WebGPU: session.run would be wrong on a session that
        captures. A graph has its own buffers, and is compared with a run without capture before it returns its first
        outputs.
        """,
        ("capture/*",),
        (
            "backend_test_capture.py",
            "backend_test_capture_behaviour.py",
            "backend_test_capture_cuda.py",
            "backend_test_captured_models.py",
            "capture_*.py",
            "cuda*.py",
            "session_ort_messages.py",
            "session_state.py",
        ),
    ),
    Step(
        "Backend API: tests of graph capture on WebGPU",
        """
        Captures each operator that WebGPU may capture, in small models whose shapes and attributes vary.
        """,
        (),
        ("backend_captured_*.py", "operators_webgpu_capture.py", "webgpu_capture.py"),
    ),
    Step(
        "Backend API: a software CUDA for the tests of the CUDA EP",
        """
        Libraries with the functions of NVIDIA's libraries that the tests need. They compute on the CPU, so that the
        tests of the CUDA EP run without a GPU.
        """,
        (),
        ("software_cuda*", "software_cuda/*", "with_software_cuda.sh"),
    ),
    Step(
        "Backend API: a command line that lists and checks configurations",
        """
        python -m onnxruntime.backend lists the permitted and refused settings, checks a configuration, and writes a
        JSON Schema.
        """,
        (
            "__main__.py",
            *(f"command_line/{name}.py" for name in _COMMANDS_OF_SETTINGS),
        ),
        (
            "backend_test_command_line.py",
            *(f"command_line_{name}*.py" for name in _COMMANDS_OF_SETTINGS),
        ),
    ),
    Step(
        "Backend API: commands that run a model, and a report of ONNX's tests",
        """
        The command run compares outputs and latencies of several configurations, and info runs a model on each EP of
        this machine. The pytest plugin conformance.py records the EPs of each of ONNX's backend tests, and the command
        report shows them. Adds the test of the architecture.
        """,
        (
            "conformance.py",
            "command_line/info.py",
            "command_line/inputs.py",
            "command_line/inspect.py",
            "command_line/measure.py",
            "command_line/report*.py",
            "command_line/run*.py",
            "command_line/tables.py",
        ),
        (
            "architecture.py",
            "backend_differential_fuzz.py",
            "command_line_arguments.py",
            "command_line_info.py",
            "command_line_inputs.py",
            "command_line_inspect*.py",
            "command_line_processes.py",
            "command_line_run*.py",
            "command_line_measure*.py",
            "command_line_report*.py",
            "conformance.py",
            "backend_test_messages.py",
            "messages.py",
            "optional_parts.py",
        ),
    ),
)
# The step that replaces the stock backend.
API = next(number for number, step in enumerate(STEPS) if "backend.py" in step.product)
