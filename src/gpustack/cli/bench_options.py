"""The options of ``gpustack bench``."""

from pathlib import Path
from typing import Annotated

from gpustack.cli.declare import Argument, Option
from gpustack.cli.options import TextOrJson

Subject = Annotated[str, Argument(metavar="ffmpeg|tensorrt|gpu", help="What to measure.")]
Sessions = Annotated[str, Option("--sessions", metavar="N,N", help="ffmpeg: numbers of simultaneous transcodes.")]
Seconds = Annotated[float, Option("--seconds", metavar="S", min=2, help="ffmpeg: length of each clip.")]
Size = Annotated[str, Option("--size", metavar="WxH", help="ffmpeg: size of the clip.")]
Outputs = Annotated[str, Option("--outputs", metavar="N,N", help="ffmpeg: outputs of each transcode, in one process.")]
AllGpus = Annotated[bool, Option("--all-gpus", help="ffmpeg: share the sessions among all GPUs.")]
Onnx = Annotated[Path | None, Option("--onnx", metavar="FILE", help="tensorrt: your network, as ONNX.")]
Engine = Annotated[Path | None, Option("--engine", metavar="FILE", help="tensorrt: your engine.")]
Shapes = Annotated[
    list[str] | None,
    Option("--shapes", metavar="INPUT:1x3x224x224", help="tensorrt: an input's shape; N is the batch. Repeatable."),
]
Batch = Annotated[
    str | None,
    Option("--batch", metavar="N,N", help="tensorrt: batch sizes (default: 1,8,32,64,128; 1 for your own)."),
]
Streams = Annotated[str, Option("--streams", metavar="N,N", help="tensorrt: numbers of simultaneous streams.")]
Iterations = Annotated[
    int | None,
    Option("--iterations", metavar="N", min=10, help="tensorrt: least timed runs (default: 500; 10 for your own)."),
]
Duration = Annotated[int, Option("--duration", metavar="S", min=0, help="Your own network: least seconds.")]
WarmUp = Annotated[int, Option("--warm-up", metavar="MS", min=0, help="Your own network: runs before.")]
Precision = Annotated[
    str, Option("--precision", metavar="P,P", help="fp32, fp16, bf16; your own network: also tf32, int8, fp8.")
]
Calibration = Annotated[
    Path | None,
    Option("--calibration", metavar="FILE", help="Your own network: a cache of int8 scales, or ranges as JSON."),
]
CudaGraph = Annotated[bool, Option("--cuda-graph", help="Your own network: with CUDA graphs as well.")]
LatencyLimit = Annotated[
    float | None,
    Option("--latency-limit", metavar="MS", min=0.001, help="Your own network: best throughput within MS."),
]
Layers = Annotated[bool, Option("--layers", help="Your own network: show the time of each layer.")]
Compare = Annotated[
    Path | None, Option("--compare", metavar="OLD.json", help="tensorrt: compare with an earlier measurement.")
]
Profile = Annotated[
    Path | None,
    Option("--profile", metavar="FILE", help="tensorrt: write the time of each layer to FILE; - is standard output."),
]
Ffmpeg = Annotated[
    Path | None, Option("--ffmpeg", metavar="FILE", help="The FFmpeg to measure, if several are installed.")
]
Format = Annotated[TextOrJson | None, Option("--format", help="text (default) or json.")]
