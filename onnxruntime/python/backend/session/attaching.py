# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Attaches the execution providers (EPs) of a permit to the options of a session.

ORT has three APIs that attach an EP from Python, and each silently loses options of some EP. The argument
``providers=`` ignores most plugin EPs. The method ``add_provider`` drops options that built-in OpenVINO reads only from
session config entries. Built-in WebGPU reads only such entries. So :func:`attach` chooses an API for each EP.
"""

import json

from onnxruntime import SessionOptions
from onnxruntime.backend.allowlist.permit import Permit
from onnxruntime.backend.allowlist.rules import NOTHING, Settings, Texts
from onnxruntime.backend.errors import FROM_ENVIRONMENT, Place, reject, reject_value
from onnxruntime.backend.explanations import failures
from onnxruntime.backend.provider_names import OPENVINO, OPENVINO_AUTO, TENSORRT, WEBGPU
from onnxruntime.backend.session import presence

# OpenVINO's plugin reads these options only inside load_config, in the section of the device that runs the model.
_PROPERTIES = {
    "num_of_threads": "INFERENCE_NUM_THREADS",
    "num_streams": "NUM_STREAMS",
    "precision": "INFERENCE_PRECISION_HINT",
}
_SECTIONS = {OPENVINO: "CPU", OPENVINO_AUTO: "AUTO"}


def option_texts(name: str, kind: str, settings: Settings) -> dict[str, str]:
    """Return the texts of an EP's options as ORT receives them."""
    texts = dict(settings.texts)
    if kind != "plugin" or name not in _SECTIONS:
        return texts
    inside = {}
    for option in settings:
        if option in _PROPERTIES:
            inside[_PROPERTIES[option]] = texts.pop(option)
    if inside:
        texts["load_config"] = json.dumps({_SECTIONS[name]: inside})
    return texts


def attach(options: SessionOptions, permit: Permit) -> tuple[dict[str, Texts], list[tuple[str, dict]] | None]:
    """Attach each EP through the API that preserves its options.

    Return the texts of the options by EP, and the ``providers=`` argument. With this argument, ORT ignores every EP
    that is attached to the session options.
    """
    devices = {}  # of plugin EPs
    texts_by_ep: dict[str, Texts] = {}
    sent = {}
    trusted = permit.trusted.get("provider_options", NOTHING)
    for name, settings in permit.providers.items():
        kind = permit.kinds[name]
        texts = texts_by_ep[name] = option_texts(name, kind, settings)
        if kind == "plugin":
            devices[name] = _choose_device(name, settings, texts)
        of_operator = trusted.get(name, NOTHING)
        if not texts.keys().isdisjoint(of_operator):
            raise RuntimeError(f'"trusted": an option of {name} also carries options of callers{FROM_ENVIRONMENT}')
        sent[name] = {**texts, **of_operator}
    # ORT registers TensorRT's plugin operators only for EPs in this argument. The argument preserves the options of
    # CUDA and CPU as well.
    if TENSORRT in permit.providers and TENSORRT not in devices:
        if devices:
            problem = f"it cannot be combined with {', '.join(devices)}: ORT ignores plugin EPs if TensorRT is attached"
            reject(Place("provider_options", TENSORRT), f"{problem}. Specify only one of them")
        return texts_by_ep, list(sent.items())

    for name, texts in sent.items():
        try:
            if name in devices:
                options.add_provider_for_devices([devices[name]], texts)
            else:
                _attach_built_in(options, name, texts)
        except Exception as error:
            failures.explain_attaching(error, name, texts, of_caller=name not in devices and name not in trusted)
    return texts_by_ep, None


def _attach_built_in(options: SessionOptions, name: str, texts: Texts) -> None:
    # OpenVINO's factory parses some options again from entries, and WebGPU's reads only entries. ORT logs the value of
    # an entry that exists when add_provider adds it.
    if name in (OPENVINO, WEBGPU):
        for option, text in texts.items():
            options.add_session_config_entry(f"ep.{name.lower()}.{option}", text)
    options.add_provider(name, {} if name == WEBGPU else texts)


def _choose_device(name: str, settings: Settings, texts: dict[str, str]) -> object:
    """Return a plugin EP's device: the one with the index ``device_id``, else the first. The WebGPU EP rejects two."""
    devices = presence.plugin_devices(name)
    index = int(texts.pop("device_id", 0))  # the EP would ignore or reject this option
    if index >= len(devices):
        expected = f"an integer below {len(devices)}, the number of the EP's devices on this machine"
        reject_value(Place("provider_options", name, "device_id"), index, expected)
    hardware = devices[index].device.type.name
    required = _SECTIONS[OPENVINO]
    for option in settings:
        if name == OPENVINO and option in _PROPERTIES and hardware != required:
            problem = f"has no effect on device {index} of the EP, a {hardware}. It requires a {required}"
            reject(Place("provider_options", name, option), problem)
    return devices[index]
