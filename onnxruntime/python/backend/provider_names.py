# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The names of the execution providers (EPs) that this package supports, as ORT spells them."""

CPU = "CPUExecutionProvider"
AZURE = "AzureExecutionProvider"
CUDA = "CUDAExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"
NV_TENSORRT_RTX = "NvTensorRTRTXExecutionProvider"
MIGRAPHX = "MIGraphXExecutionProvider"
CANN = "CANNExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"
OPENVINO_AUTO = "OpenVINOExecutionProvider.AUTO"
QNN = "QNNExecutionProvider"
WEBGPU = "WebGpuExecutionProvider"
DML = "DmlExecutionProvider"
COREML = "CoreMLExecutionProvider"
VITISAI = "VitisAIExecutionProvider"

# The EPs that compute through the CUDA runtime.
THROUGH_CUDA = (CUDA, TENSORRT, NV_TENSORRT_RTX)
# The device of GPU builds, as ONNX and as ORT call it, and the EPs that run on it.
CUDA_DEVICE = ("CUDA", "GPU")
ON_CUDA_DEVICE = (CUDA, TENSORRT, NV_TENSORRT_RTX, MIGRAPHX)
ON_GPU = (*ON_CUDA_DEVICE, DML, WEBGPU)
NPU = (QNN, VITISAI)
# The EPs of OpenVINO. Its plugin library has two.
OF_OPENVINO = frozenset({OPENVINO, OPENVINO_AUTO})
# The EPs that compile their nodes.
COMPILING = (OPENVINO, OPENVINO_AUTO, TENSORRT, NV_TENSORRT_RTX, MIGRAPHX, COREML, QNN, VITISAI)
# The EPs that every build may have. Their presence does not depend on the device.
ON_ANY_DEVICE = frozenset({CPU, AZURE})
# The option of each EP that makes ORT capture graphs and replay them.
CAPTURE_SWITCHES = {CUDA: "enable_cuda_graph", TENSORRT: "trt_cuda_graph_enable", WEBGPU: "enableGraphCapture"}
