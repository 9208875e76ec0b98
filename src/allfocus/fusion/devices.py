"""The devices that a network can be asked to run on, with what each means; nothing heavy, because help shows them."""

DEVICES = {
    "auto": "the fastest of the others that gives the results of the processor",
    "cpu": "the processor",
    "cuda": "an NVIDIA GPU",
    "tensorrt": "an NVIDIA GPU by TensorRT",
    "rocm": "an AMD GPU",
    "directml": "any GPU on Windows",
    "coreml": "Apple's GPU and neural engine",
    "openvino": "Intel's processors, GPUs and NPUs",
}
"""What ``--device`` can be."""
TORCH_DEVICES = ("auto", "cpu", "cuda")
"""Those of methods that run in torch, and of training."""
