"""Running a backbone: OpenVINO, ONNX Runtime or torch, whichever is there, in the order they measured fastest.

On two Zen 3 cores OpenVINO ran EfficientNet-Lite 1.2 (Lite2, 448 px) to 1.4 (Lite0, 224 px) times as fast as ONNX
Runtime (Lite2 at 320 px: 1.3 times) and 3 to 4.6 times as fast as torch, best with one photo at a time on as many
single-threaded streams as there are cores.
Several threads may call `run` of one runner at the same time; that is how those streams are used.
`openvino-int8` is faster still, but its features differ: it is there for those who ask for it.
"""

import importlib
import logging
import os
import queue
import sys
import threading
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from smlstm.errors import ConfigurationError, MissingDependencyError
from smlstm.vision import int8
from smlstm.vision.backbones.base import Backbone
from smlstm.vision.converted import converted

_log = logging.getLogger(__name__)

Pixels = NDArray[np.uint8]
Features = tuple[NDArray[np.float32], NDArray[np.float32]]

# A runtime's package is what must be importable for it to run. Fastest first, as "auto" tries them; torch always runs,
# so that what comes after it is only ever taken by its name.
RUNTIMES = {"openvino": "openvino", "onnxruntime": "onnxruntime", "torch": "torch", "openvino-int8": "openvino"}


def usable_cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Runner(ABC):
    """A backbone made ready to run."""

    name: str
    # How many photos a single call is best given.
    photos_at_once = 1

    def __init__(self, backbone: Backbone):
        self.backbone = backbone

    @abstractmethod
    def run(self, pixels: Pixels) -> Features:
        """Map B x S x S x 3 bytes to regions B x I x F and context B x D."""


class TorchRunner(Runner):
    """Eager torch: slowest, and always there."""

    name = "torch"
    photos_at_once = 8

    def __init__(self, backbone: Backbone):
        super().__init__(backbone)
        # torch spreads one batch over all cores itself; two batches at once would only fight for them.
        self._one_at_a_time = threading.Lock()

    def run(self, pixels: Pixels) -> Features:
        """Map B x S x S x 3 bytes to regions B x I x F and context B x D."""
        with self._one_at_a_time:
            return self.backbone.run(pixels)


class CompiledRunner(Runner):
    """A network compiled for one photo at a time, which needs the least memory and measured fastest."""

    def run(self, pixels: Pixels) -> Features:
        """Map B x S x S x 3 bytes to regions B x I x F and context B x D."""
        about = self.backbone
        regions = np.empty((len(pixels), about.regions, about.region_width), np.float32)
        context = np.empty((len(pixels), about.context_width), np.float32)
        for index in range(len(pixels)):
            self._run_one(pixels[index : index + 1], regions[index : index + 1], context[index : index + 1])
        return regions, context

    @abstractmethod
    def _run_one(self, pixels: Pixels, regions: NDArray[np.float32], context: NDArray[np.float32]) -> None: ...


class OpenVinoRunner(CompiledRunner):
    """OpenVINO on the CPU, with `streams` photos under way at a time."""

    name = "openvino"

    def __init__(self, backbone: Backbone, threads: int, streams: int):
        super().__init__(backbone)
        openvino = _import_openvino()
        compiled = openvino.Core().compile_model(
            self._model(openvino),
            "CPU",
            {
                "NUM_STREAMS": streams,
                "INFERENCE_NUM_THREADS": threads,
                # Lower precision would make features depend on the machine they were made on.
                "INFERENCE_PRECISION_HINT": "f32",
                # Threads bound to cores wait for those very cores when other programs are busy on them.
                "ENABLE_CPU_PINNING": False,
            },
        )
        # Buffers are made here, once: making OpenVINO tensors in two threads at the same time can deadlock.
        self._idle: queue.LifoQueue[_Stream] = queue.LifoQueue()
        for _ in range(streams):
            stream = _Stream(compiled.create_infer_request(), *_buffers(backbone))
            stream.request.set_input_tensor(openvino.Tensor(stream.pixels, shared_memory=True))
            for index, buffer in enumerate((stream.regions, stream.context)):
                stream.request.set_output_tensor(index, openvino.Tensor(buffer, shared_memory=True))
            # The first call of all sets up what the library shares between threads.
            stream.infer()
            self._idle.put(stream)

    def _model(self, openvino: Any) -> Any:
        folder = converted(self.backbone, f"openvino-{openvino.__version__}", self._convert)
        return openvino.Core().read_model(folder / "network.xml")

    def _convert(self, folder: Path) -> None:
        # Not `openvino.convert_model`: that reports its use over the network and runs the network three times.
        from openvino import save_model  # noqa: PLC0415 - slow, and only for this runtime
        from openvino.frontend import FrontEndManager  # noqa: PLC0415
        from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder  # noqa: PLC0415

        example = _blank(self.backbone)
        with warnings.catch_warnings(), torch.inference_mode():
            warnings.simplefilter("ignore")
            traced = torch.jit.trace(  # type: ignore[no-untyped-call]
                self.backbone.network, example, check_trace=False
            )
            frontend = FrontEndManager().load_by_framework("pytorch")
            # By name, since OpenVINO keeps no reference of its own and calls back into it while converting.
            decoder = TorchScriptPythonDecoder(traced)
            model = frontend.convert(frontend.load(decoder))
        model.reshape(list(example.shape))
        save_model(model, folder / "network.xml", compress_to_fp16=False)

    def _run_one(self, pixels: Pixels, regions: NDArray[np.float32], context: NDArray[np.float32]) -> None:
        stream = self._idle.get()
        try:
            stream.pixels[:] = pixels
            stream.infer()
            regions[:], context[:] = stream.regions, stream.context
        finally:
            self._idle.put(stream)


class EightBitRunner(OpenVinoRunner):
    """OpenVINO with weights and activations in 8 bits; its backbone says so, to keep its features apart from others."""

    name = "openvino-int8"

    def __init__(self, backbone: Backbone, threads: int, streams: int):
        self._calibration, digest = int8.read_calibration(backbone)
        super().__init__(replace(backbone, rounded=f"in 8 bits, calibration {digest[:8]}"), threads, streams)

    def _model(self, openvino: Any) -> Any:
        return int8.build(self.backbone, self._calibration)


def _import_openvino() -> Any:
    """Import OpenVINO (slow) without what it does at its import: fork a process that reports it over the network."""
    if "openvino" not in sys.modules:
        # A module that is None cannot be imported; OpenVINO has a stand-in for when its reporter is not there.
        sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    return importlib.import_module("openvino")


@dataclass(frozen=True, eq=False)
class _Stream:
    """A request of OpenVINO and the arrays that it reads from and writes to."""

    request: Any
    pixels: Pixels
    regions: NDArray[np.float32]
    context: NDArray[np.float32]

    def infer(self) -> None:
        self.request.start_async()
        self.request.wait()


def _buffers(backbone: Backbone) -> tuple[Pixels, NDArray[np.float32], NDArray[np.float32]]:
    return (
        np.zeros((1, backbone.input_size, backbone.input_size, 3), np.uint8),
        np.empty((1, backbone.regions, backbone.region_width), np.float32),
        np.empty((1, backbone.context_width), np.float32),
    )


class OnnxRunner(CompiledRunner):
    """ONNX Runtime on the CPU."""

    name = "onnxruntime"

    def __init__(self, backbone: Backbone, threads: int, streams: int):
        super().__init__(backbone)
        import onnxruntime  # noqa: PLC0415 - optional, and slow to import

        folder = converted(backbone, f"onnx-torch-{torch.__version__}", self._convert)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = max(1, threads // streams)
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            str(folder / "network.onnx"), options, providers=["CPUExecutionProvider"]
        )

    def _convert(self, folder: Path) -> None:
        chatter = logging.getLogger("torch.onnx")
        level = chatter.level
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            chatter.setLevel(logging.ERROR)
            program = torch.onnx.export(
                self.backbone.network,
                (_blank(self.backbone),),
                dynamo=True,
                verbose=False,
                input_names=["pixels"],
                output_names=["regions", "context"],
            )
        chatter.setLevel(level)
        assert program is not None
        program.save(folder / "network.onnx", external_data=False)

    def _run_one(self, pixels: Pixels, regions: NDArray[np.float32], context: NDArray[np.float32]) -> None:
        regions[:], context[:] = self._session.run(None, {"pixels": pixels})


def _blank(backbone: Backbone) -> torch.Tensor:
    return torch.zeros(1, backbone.input_size, backbone.input_size, 3, dtype=torch.uint8)


def installed_runtimes() -> tuple[str, ...]:
    """List the runtimes that can be used here, in the order in which "auto" tries them."""
    return tuple(name for name, package in RUNTIMES.items() if find_spec(package) is not None)


def make_runner(backbone: Backbone, runtime: str = "auto", *, threads: int | None = None, streams: int = 1) -> Runner:
    """Prepare a backbone to run on `threads` cores (all by default), `streams` calls of `run` at a time.

    "auto" takes the fastest runtime in float32 that is installed and works; torch is the one that always does.
    """
    if runtime != "auto" and runtime not in RUNTIMES:
        raise ConfigurationError(f"there is no runtime {runtime!r}: choose auto, {', '.join(RUNTIMES)}")
    if runtime != "auto" and runtime not in installed_runtimes():
        package = RUNTIMES[runtime]
        wanted = "'smlstm[onnxruntime]'" if package == "onnxruntime" else package
        raise MissingDependencyError(f"{package} is not installed: pip install {wanted}")
    cores = usable_cores() if threads is None else threads
    for name in installed_runtimes() if runtime == "auto" else (runtime,):
        try:
            if name == "openvino":
                return OpenVinoRunner(backbone, cores, streams)
            if name == "onnxruntime":
                return OnnxRunner(backbone, cores, streams)
            if name == "openvino-int8":
                return EightBitRunner(backbone, cores, streams)
            return TorchRunner(backbone)
        except (ImportError, RuntimeError, OSError, torch.onnx.OnnxExporterError) as error:
            if runtime != "auto":
                raise ConfigurationError(f"{name} cannot run {backbone.name}: {error}") from error
            _log.warning("%s cannot run %s (%s): trying the next runtime", name, backbone.name, error)
    return TorchRunner(backbone)
