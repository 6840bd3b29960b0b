# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The messages of the backend: tables of a call, and the message that it causes.

A message is indented. "..." in a message matches any text: names of this machine or release, and ORT's own words.
``test_messages.py`` makes the calls.
"""

from __future__ import annotations

# The allowlist does not permit the setting. After its name, these messages have the words of NOT_PERMITTED.
REFUSALS = r"""
prepare(session_config={"session.intra_op.allow_spining": 1})
    session_config['session.intra_op.allow_spining']: unknown key. Did you mean 'session.intra_op.allow_spinning'?
prepare(session_config={"spinning": 1})
    session_config['spinning']: unknown key. Did you mean 'session.intra_op.allow_spinning' or
    'session.inter_op.allow_spinning'?
prepare(session_config={"num_threads": 1})
    session_config['num_threads']: unknown key. Did you mean session_options['inter_op_num_threads'] or
    session_options['intra_op_num_threads']?
prepare(session_options={"": 1})
    session_options['']: unknown attribute...
prepare(provider_options={"": {}})
    provider_options['']: unknown execution provider. Known: ... If it is a plugin EP, register its library first, with
    "plugins" in the environment or onnxruntime.register_execution_provider_library
prepare(session_config={"foo": 1})
    session_config['foo']: unknown key. To list the permitted names, run `python -m onnxruntime.backend options session`
prepare(session_config={"gpu_graph_id": 1})
    session_config['gpu_graph_id']: unknown key. It belongs in run_config
prepare(session_config={"intra_op_num_threads": 1})
    session_config['intra_op_num_threads']: unknown key. It belongs in session_options
prepare(run_config={"log_severity_level": 2})
    run_config['log_severity_level']: unknown key. It belongs in session_options or the keyword arguments of run
prepare(session_config={"use_tf32": 1})
    session_config['use_tf32']: set by another argument (an option of the CUDA execution provider. Pass it in
    provider_options)
prepare(session_config={"session.disable_cpu_ep_fallback": 1})
    session_config['session.disable_cpu_ep_fallback']: it requires ...CPUExecutionProvider. Otherwise, ORT ignores or
    rejects it
prepare(run_config={"only_execute_path_to_fetches": 1})
    run_config['only_execute_path_to_fetches']: unknown key. It belongs in the keyword arguments of run
prepare(optimized_model_filepath="x")
    optimized_model_filepath: writes files (saves the optimized model to a file of any name). In a program that you
    trust, create the InferenceSession with it and pass the session to prepare
prepare(session_options={"provider_options": {}})
    session_options['provider_options']: unknown attribute. It belongs in the keyword arguments of prepare
prepare(enable_profiling=True)
    enable_profiling: with the value True, ORT writes a trace of every run to a file. In a program that you trust,
    create the InferenceSession with this attribute and pass it to prepare as the model
prepare(session_options={"gpu_mem_limit": 1})
    session_options['gpu_mem_limit']: unknown attribute. Did you mean
    provider_options['CUDAExecutionProvider']['gpu_mem_limit']?
prepare(session_options={SPINNING: 1})
    session_options['session.intra_op.allow_spinning']: unknown attribute. It belongs in session_config
prepare(session_options={"intra_op_num_thread": 1})
    session_options['intra_op_num_thread']: unknown attribute. Did you mean 'intra_op_num_threads'?
prepare(extensions=["x"])
    extensions: only the environment variable ORT_ONNX_BACKEND_CONFIG can specify it, as {"extensions": ...}
prepare(plugins=["x"])
    plugins: only the environment variable ORT_ONNX_BACKEND_CONFIG can specify it, as {"plugins": ...}
prepare(permit={})
    permit: only the environment variable ORT_ONNX_BACKEND_CONFIG can specify it, as {"permit": ...}
under(CONFIG, {"permit": {"session_options": {"intra_op_num_threads": [1, 2, 9]}}}, intra_op_num_threads="8")
    intra_op_num_threads: with the value '8', "permit" in the environment variable ORT_ONNX_BACKEND_CONFIG does not
    contain this value. Permitted: 1, 2, 9
under(CONFIG, {"permit": {"session_options": {"logid": [f"id{number}" for number in range(40)]}}}, logid="a")
    logid: with the value 'a', ... Permitted: 'id0', ..., 'id31', and 8 more
under(CONFIG, {"permit": {"session_options": {"logid": ["a"]}}}, intra_op_num_threads=None)
    intra_op_num_threads: "permit" in the environment variable ORT_ONNX_BACKEND_CONFIG does not contain this setting.
    Permitted in session_options: 'logid'
under(CONFIG, {"permit": {"provider_options": {CUDA: {}}}}, provider_options={CPU: {}})
    provider_options['CPUExecutionProvider']: "permit" in the environment variable ORT_ONNX_BACKEND_CONFIG does not
    contain this setting. Permitted in provider_options: 'CUDAExecutionProvider'
under(CONFIG, {"permit": {}}, session_config={SPINNING: 1})
    session_config['session.intra_op.allow_spinning']: ... Permitted in session_config: nothing
prepare(provider_options={"cuda": {}})
    provider_options['cuda']: unknown execution provider. Did you mean 'CUDAExecutionProvider'?
prepare(provider_options={"ROCMExecutionProvider": {}})
    provider_options['ROCMExecutionProvider']: unknown execution provider. Did you mean 'MIGraphXExecutionProvider'?
prepare(provider_options={CPU: {"use_arena": 1}})
    provider_options['CPUExecutionProvider']['use_arena']: no options of this execution provider are permitted. Use
    provider_options={'CPUExecutionProvider': {}}
permit(kind="plugin", provider_options={"XExecutionProvider": {"x": 1}})
    provider_options['XExecutionProvider']['x']: no options of this execution provider have been reviewed. Use
    provider_options={'XExecutionProvider': {}}
permit(provider_options={CUDA: {"device": 1}})
    provider_options['CUDAExecutionProvider']['device']: unknown option. Did you mean 'device_id'?
permit(kind="built-in", provider_options={OPENVINO: {"num_of_threads": 1}})
    provider_options['OpenVINOExecutionProvider']['num_of_threads']: with the value 1, a run that fails can return the
    output of the previous run, or terminate the process (a defect of OpenVINO)
permit(NEWEST._replace(release=(1, 23)), provider_options={CUDA: {"fuse_conv_bias": 1}})
    provider_options['CUDAExecutionProvider']['fuse_conv_bias']: it requires ORT 1.24. ORT 1.23 stores it and ignores it
permit(provider_options={CUDA: {"enable_skip_layer_norm_strict_mode": 1}})
    provider_options['CUDAExecutionProvider']['enable_skip_layer_norm_strict_mode']: ORT ... ignores it, as all releases
    from 1.28 do
"""

# The value, type or number of entries is wrong.
WRONG_VALUES = r"""
prepare(session_config={SPINNING: "yes"})
    session_config['session.intra_op.allow_spinning']: invalid value 'yes' (not a flag). Expected True/False, 0/1 or
    '0'/'1'
session_config({"optimization.constant_folding_max_output_size_in_bytes": "many"})
    session_config['optimization.constant_folding_max_output_size_in_bytes']: invalid value 'many' (not an integer).
    Expected an integer from 1 to 1073741824
prepare(intra_op_num_threads=10**6)
    intra_op_num_threads: invalid value 1000000... Expected an integer ...
prepare(intra_op_num_threads=1 << 200)
    intra_op_num_threads: invalid value of 201 bits (out of range...). Expected an integer ...
prepare(graph_optimization_level="ALL")
    graph_optimization_level: invalid value 'ALL' (not a member of this enum). Expected
    ...GraphOptimizationLevel...ORT_DISABLE_ALL, ...
prepare(execution_mode=1)
    execution_mode: invalid value 1 (the number of ORT_PARALLEL). Expected a member of ...
permit(provider_options={CUDA: {"cudnn_conv_algo_search": 0}})
    provider_options['CUDAExecutionProvider']['cudnn_conv_algo_search']: invalid value 0 (the number of 'EXHAUSTIVE').
    Expected one of 'EXHAUSTIVE', 'HEURISTIC', 'DEFAULT'
prepare(logid="a\nb")
    logid: invalid value 'a\nb' (not of the accepted form). Expected ...
permit(kind="built-in", provider_options={OPENVINO: {"device_type": "CPU_FP32"}})
    provider_options['OpenVINOExecutionProvider']['device_type']: invalid value 'CPU_FP32' (a form of earlier releases:
    specify the device alone, and 'FP32' in the option precision). Expected a device (CPU, GPU, ...
permit(kind="built-in", provider_options={OPENVINO: {"device_type": "AUTO"}})
    provider_options['OpenVINOExecutionProvider']['device_type']: invalid value 'AUTO' (specify the devices, as in
    AUTO:GPU,CPU). Expected a device (CPU, GPU, ...
permit(kind="built-in", provider_options={OPENVINO: {"device_type": "my_FP64"}})
    provider_options['OpenVINOExecutionProvider']['device_type']: invalid value 'my_FP64' (not of the accepted form).
    Expected a device (CPU, GPU, ...
prepare(OPEN, free_dimension_overrides={"N": 0})
    free_dimension_overrides['N']: invalid value 0 (out of range). Expected an integer from 1 to 16777216
prepare(session_config=dict.fromkeys(map(str, range(300)), 1))
    session_config: more than 256 entries
prepare(session_config={1: 1})
    session_config: a key must be a str, not 1
prepare(session_config={SPINNING: None})
    session_config['session.intra_op.allow_spinning']: invalid value None (values of this type are not accepted).
    Expected True/False, 0/1 or '0'/'1'
session_config({"session.gqa_value_layout": "x"})
    session_config['session.gqa_value_layout']: invalid value 'x' (not one of the accepted names). Expected one of
    'BNSH', 'BNHS'
session_config({"optimization.disable_specified_optimizers": "Nope"})
    session_config['optimization.disable_specified_optimizers']: invalid value 'Nope' (it contains a name that is not
    permitted). Expected names from these lists, joined by ';'. ORT 1.24 ...
under(CONFIG, {"permit": {"session_options": {"intra_op_num_threads": [4, 2, 3]}}}, intra_op_num_threads=4.0)
    intra_op_num_threads: invalid value 4.0 (not an integer). Expected an integer from 2 to 4
under(CONFIG, {"permit": {"session_options": {"execution_mode": ["ORT_SEQUENTIAL"]}}}, execution_mode=10**9)
    execution_mode: invalid value 1000000000 (not a member of this enum). Expected
    'ORT_SEQUENTIAL'
prepare().run([X], timeout="1")
    timeout: invalid value '1'. Expected a number of seconds greater than 0 and at most 1000000
"""

WRONG_TYPES = r"""
prepare(provider_options=[CPU])
    provider_options must be a mapping such as a dict, not list. Use provider_options={'CPUExecutionProvider': {}}
prepare(provider_options={CPU: None})
    provider_options['CPUExecutionProvider'] must be a mapping such as a dict, not NoneType
prepare().run([X], cancellation=1)
    cancellation must be an onnxruntime.backend.Cancellation, not int
"""

# The setting is valid and cannot be applied in this call.
NOT_APPLICABLE = r"""
prepare(provider_options={CANN: {}})
    provider_options['CANNExecutionProvider']: the execution provider is not available in this process. Available: ...
under(EXCLUDE, CUDA, provider_options={CUDA: {}})
    provider_options['CUDAExecutionProvider']: the environment variable ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS excludes it
prepare(two_nodes(("N", 2**14)), free_dimension_overrides={"N": 2**16})
    free_dimension_overrides: input 'X' would have 1073741824 elements. The maximum is 268435456
presence.reject_device("CUDA", ["CPU"])
    device: 'CUDA' is not supported. This ORT build supports: CPU. ...CUDAExecutionProvider requires an NVIDIA GPU with
    its driver, and the base onnxruntime-gpu. To install this base, set the environment variable ORT_BACKEND_BASE to
    onnxruntime-gpu. Then, in a checkout of this package, run `pip uninstall -y onnxruntime...` and `pip install .`
prepare(b"\xff.onnx".decode("utf-8", "surrogateescape"))
    model: the path is not UTF-8, which ORT's Python API requires. Pass the file's bytes
prepare(device=[CPU])
    device: a value of type list is not supported. Use provider_options={'CPUExecutionProvider': {}}. This ORT build
    supports: {SUPPORTED}
prepare(device=CPU)
    device: 'CPUExecutionProvider' is not supported. Use provider_options={'CPUExecutionProvider': {}}. This ORT build
    supports: {SUPPORTED}
prepare(device="CPU:1")
    device: 'CPU:1' is not supported. The only index of CPU is 0. This ORT build supports: {SUPPORTED}
prepare(device="NPU")
    device: 'NPU' is not supported. This ORT build supports: {SUPPORTED}
presence.reject_device("cuda", ["CUDA", "GPU"])
    device: 'cuda' is not supported. Did you mean 'CUDA'? This ORT build supports: CUDA, GPU. ...
permit_on("CUDA", {CPU: {}})
    device: 'CUDA' contradicts provider_options, which contains no EP for this device
permit_on("CUDA:1", {CUDA: {"device_id": 0}})
    device: 'CUDA:1' contradicts provider_options['CUDAExecutionProvider']['device_id'], which is 0
prepare(two_nodes(("N", "K")), free_dimension_overrides={"M": 2})
    free_dimension_overrides['M']: the model's inputs have no dimension of this name. Named dimensions: 'K', 'N'
prepare(open_session(), session_config={SPINNING: 0})
    session_config: cannot be applied to an existing session. Pass the model, or create the session with it
prepare().run([X], timeout_ms=0.5)
    timeout_ms: only timeout limits a run, in seconds. Pass timeout=0.0005 to rep.run or run
onnxruntime.backend.run(MODEL, [X], timeoutMillis=250.0)
    timeoutMillis: only timeout limits a run, in seconds. Pass timeout=0.25 to rep.run or run
prepare().run([X], timeout_ms=-100)
    timeout_ms: only timeout limits a run, in seconds. Pass timeout=SECONDS to rep.run or run
prepare().run([X], time_limit_minutes=2)
    time_limit_minutes: only timeout limits a run, in seconds. Pass timeout=120 to rep.run or run
prepare().run([X], cancelation=1)
    cancelation: only cancellation cancels runs. Pass cancellation=Cancellation() to rep.run or run
prepare(deadline=5)
    deadline: only timeout limits a run, in seconds. Pass timeout=5 to rep.run or run
prepare().run_options(max_time="5s")
    max_time: only timeout limits a run, in seconds. Pass timeout=SECONDS to rep.run or run
prepare(open_session(), timeout=5)
    timeout: only rep.run and run have limits. Pass it to one of them
prepare().run([X], session_config={SPINNING: 0})
    session_config: cannot be set for a run. Pass it to prepare
under("ORT_LOAD_CONFIG_FROM_MODEL", "1", session_config={SPINNING: 0})
    session_config: cannot be applied while ORT_LOAD_CONFIG_FROM_MODEL=1. ORT uses the model's options
"""

# ORT and the stock backend ignore these. The backend warns.
IGNORED = r"""
prepare(foo=1)
    Keyword argument 'foo' is unknown and is ignored
prepare().run([X], timout=None)
    Keyword argument 'timout' is unknown and is ignored
prepare(only_execute_path_to_fetches=True)
    Keyword argument 'only_execute_path_to_fetches' is ignored by prepare. Pass it to run
prepare(providers=[("cuda", {"use_tf32": 0})])
    Keyword argument 'providers' is ignored. Use provider_options={'CUDAExecutionProvider': {'use_tf32': 0}}
prepare(sess_options=onnxruntime.SessionOptions())
    Keyword argument 'sess_options' is ignored. Pass attributes as keyword arguments, such as intra_op_num_threads=2,
    and config entries in session_config={...}. Or create an InferenceSession with these options and pass it as the
    model
prepare(run_options=None)
    Keyword argument 'run_options' is ignored. Pass attributes as keyword arguments, and config entries in
    run_config={...}
prepare(use_tf32=0)
    Keyword argument 'use_tf32' is ignored. Use provider_options={'CUDAExecutionProvider': {'use_tf32': 0}}
on_one_core()
    AzureExecutionProvider is left out, because it requires two CPU cores. Otherwise, runs can block
under(EXCLUDE, "NoEP", provider_options={CPU: {}})
    Environment variable ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS excludes an unknown execution provider, 'NoEP'. Known:
    {KNOWN}
under(EXCLUDE, CPU)
    Environment variable ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS cannot exclude CPUExecutionProvider, which every session has
prepare().run([X, X])
    Got 2 inputs. Model inputs: X: float32[2, 3]. The surplus inputs are ignored. To pass a list as the only input, put
    it in a list: [value]
prepare(open_session(), intra_op_num_threads=2)
    Keyword argument 'intra_op_num_threads' is ignored, because the session already exists. Pass it to prepare together
    with the model
prepare(open_session(), device="CUDA")
    device 'CUDA' has no effect on an existing session, which runs on CPUExecutionProvider
prepare().run([X], output_names=["Y"])
    Keyword argument 'output_names' is ignored. run() returns all outputs, in the order of the model. Select some from
    the list that it returns
prepare(inter_op_num_threads=2)
    inter_op_num_threads has no effect in this session: it requires ...
under(CONFIG, '{"session_options": {"inter_op_num_threads": 2}}')
    session_options['inter_op_num_threads'] has no effect in this session: it requires ...{FROM}
"""

INPUT_ERRORS = r"""
prepare().run([])
    Input 'X' expects float32[2, 3], got nothing
prepare().run({"Z": X})
    Unknown input 'Z'. Model inputs: X: float32[2, 3]
prepare().run([X.astype(np.float64)])
    Input 'X' expects float32[2, 3], got float64[2, 3]. Convert the array: value.astype('float32')
prepare().run([X[:1]])
    Input 'X' expects float32[2, 3], got float32[1, 3]
prepare().run([[1, 2, 3]])
    Input 'X' expects float32[2, 3], got float32[3]. The value lacks one dimension, such as the batch. To pass a list as
    the only input, put it in a list: [value]
prepare(ADD).run([X, X[0]])
    Input 'Z' expects float32[2, 3], got float32[3]. Model inputs: X: float32[2, 3], Z: float32[2, 3]. The value lacks
    one dimension, such as the batch
prepare(identity(tensor(onnx.TensorProto.STRING, [1]))).run(["text"])
    Input 'X' expects string[1], got string[]. The value lacks one dimension, such as the batch. To pass a list as the
    only input, put it in a list: [value]
prepare().run([[[None] * 3] * 2])
    Input 'X' expects float32[2, 3], got a list that contains None
prepare().run([[[1e300] * 3] * 2])
    Input 'X' expects float32[2, 3], got a list that contains 1e+300, which is out of range
prepare().run([[[1, 2], [3]]])
    Input 'X' expects float32[2, 3], got a list of lists of different lengths
prepare(identity(tensor(onnx.TensorProto.STRING, [1]))).run([[b"\xff"]])
    Input 'X' expects string[1], got bytes that are not UTF-8 text
"""

RUNTIME_ERRORS = r"""
prepare(newer(ir_version=99).SerializeToString())
    The model has IR version 99, but ONNX Runtime ... supports IR versions up to .... If the model does not use features
    of newer versions, set model.ir_version = ...
prepare(newer(opset=99).SerializeToString())
    The model imports ai.onnx opset 99, but ONNX Runtime ... supports opsets up to ... of this domain. To run it anyway,
    set the environment variable ALLOW_RELEASED_ONNX_OPSET_ONLY=0
without_the_ep()
    ORT created the session with AzureExecutionProvider, but provider_options specifies CPUExecutionProvider, in this
    order. The ORT log may contain details.
prepare(b"x", free_dimension_overrides={"N": 2})
    The model is not in ONNX's binary format. Pass the path or the bytes of an ONNX model. onnx error: ...
prepare("no such file", free_dimension_overrides={"N": 2})
    free_dimension_overrides requires a model that onnx can read. onnx error: ...
prepare(b"version https://git-lfs.github.com/spec/v1")
    The model is a Git LFS pointer. Run `git lfs pull` in its repository. ORT error: ...
under(CONFIG, '{"extensions": ["no_such_package"]}')
    Extension 'no_such_package' cannot be registered: ...{FROM}
under(CONFIG, '{"extensions": ["./x.so"]}')
    Extension './x.so' cannot be registered: expected the name of a Python package or an absolute path{FROM}
under(CONFIG, '{"plugins": ["my-ep"]}')
    Plugin 'my-ep' cannot be registered: expected the name of a Python package, such as my_ep, or EP=LIBRARY{FROM}
under(CONFIG, '{"plugins": ["json"]}')
    Plugin 'json' cannot be registered: the package has no get_ep_name() and get_library_path(). Expected
    EP=LIBRARY{FROM}
read_back_otherwise()
    session_config['session.intra_op.allow_spinning'] was sent as '0', but ORT holds '1'
after_a_failed_run_of_a_session_of_the_caller()
    A run failed inside OpenVINOExecutionProvider, and the session may return values of earlier runs. The backend cannot
    replace a session that the caller created or changed. Create a new session and prepare it
after_a_change_of_the_file()
    A run failed inside OpenVINOExecutionProvider, and the session could not be replaced: the model's file has
    changed. Prepare the model again
capturing(CUDA, TENSORRT)
    CUDAExecutionProvider and TensorrtExecutionProvider both capture, and ORT replays the graph of one: leave it to one
    of them
absent(OPENVINO)
    OpenVINOExecutionProvider requires the base onnxruntime-openvino. To install this base, set the environment variable
    ORT_BACKEND_BASE to onnxruntime-openvino. Then, in a checkout of this package, run `pip uninstall -y ...` and `pip
    install .`. The package onnxruntime-ep-openvino contains a plugin EP of this name. If it is a plugin EP, register
    its library first, with "plugins" in the environment or onnxruntime.register_execution_provider_library
absent("DmlExecutionProvider")
    DmlExecutionProvider is a part of the wheel onnxruntime-directml
absent("QNNExecutionProvider")
    The package onnxruntime-qnn contains a plugin EP of this name. If it is a plugin EP, register its library first,
    with ...
absent("NoExecutionProvider")
    If it is a plugin EP, register its library first, with ...
under(CONFIG, '{"provider_options": {"CANNExecutionProvider": {}}}')
    provider_options['CANNExecutionProvider']: ...{FROM}
under(CONFIG, '{"session_options": {"use_per_session_threads": false}}')
    session_options['use_per_session_threads']: the process has no global thread pools. Call
    onnxruntime.set_global_thread_pool_sizes before the first session, or leave out use_per_session_threads=False{FROM}
under(CONFIG, {"permit": {"session_config": {"no.such": True}}})
    the environment variable ORT_ONNX_BACKEND_CONFIG cannot be used: permit: session_config['no.such'] is not permitted
    via the backend API: unknown key. To list ...
under(CONFIG, {"permit": {"session_options": {"logid": "a"}}})
    ... ORT_ONNX_BACKEND_CONFIG ...: permit: session_options['logid'] must be true or a list of values, not 'a'
under(CONFIG, {"permit": {"logid": {}}})
    ... ORT_ONNX_BACKEND_CONFIG ...: permit: 'logid' is not one of provider_options, ...
"""

SKIPS = r"""
prepare(newer(opset=99))
    The model imports ai.onnx opset 99, which is not released according to the installed onnx. To run it anyway, set the
    environment variable ALLOW_RELEASED_ONNX_OPSET_ONLY=0
"""

TIMEOUTS = r"""
prepare(slow(), provider_options={CPU: {}}, intra_op_num_threads=1).run([np.eye(400, dtype=np.float32)], timeout=0.01)
    The run exceeded its timeout of 0.01 s and was ended
"""

CANCELLATIONS = r"""
prepare().run([X], cancellation=cancelled())
    ... run was canceled
"""

TYPE_ERRORS = r"""
copy.deepcopy(prepare())
    Send functools.partial(onnxruntime.backend.prepare, path, **rep.configuration()), call it in a function of the
    worker, and return outputs only: a prepared model cannot be pickled or deep-copied. copy.copy shares the session
prepare().run(None, {"X": X})
    run() takes the inputs as its only positional argument, and returns all outputs. Use rep.run({...}) instead of
    session.run(None, {...})
prepare(onnx.load_from_string(MODEL).graph)
    model must be a path, bytes, ... not ...GraphProto
prepare(bytearray(MODEL))
    model must be a path, bytes, ... not ...bytearray
"""
