#!/usr/bin/env python3
"""What users would pick instead, on the same sizes, beside our figures.

    tests/gpu/bundle FOLDER              # where Bazel is
    benchmarks/peers/run.py FOLDER       # on the GPU machine, needs PyTorch

Runs the bundled benchmarks, then PyTorch's ways to the same results, and prints
one line each: ours, the peer's, peer / ours.

* casts: torch.compile; matmul: torch._scaled_mm. Both sides work on the same
  values, made by one formula (`values`, FillRandomOnDevice).
* a scale update of N slots, issued eagerly: stack + history + scale ops, with
  two GPUs also all_reduce (in two processes that this script starts). Ours is
  the longer of EndStep's host and GPU time.
* forward and backward of a linear layer, normal values of the same deviations:
  TransformerEngine (te.Linear, delayed scaling) and torchao (float8 training,
  compiled), each where it is installed, and named as absent where it is not.
"""

import importlib.util
import json
import os
import statistics
import subprocess
import sys

import torch

N = 16384
SLOTS = (64, 512, 2048)
TOKENS = 8192
LAYERS = ((4096, 16384), (8192, 8192))  # in, out


def gpu_time(call, batch=10, repeats=11):
    """Median seconds per call, GPU time."""
    for _ in range(3):
        call()
    times = []
    for _ in range(repeats):
        start = torch.cuda.Event(enable_timing=True)
        stop = torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(batch):
            call()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 1e-3 / batch)
    return statistics.median(times)


def values(rows, cols, scale=1.0, dtype=torch.bfloat16):
    """The rows x cols values of FillRandomOnDevice, times `scale`."""
    mask = 0xFFFFFFFF
    result = torch.empty(rows * cols, device="cuda", dtype=dtype)
    chunk = 1 << 24
    for at in range(0, rows * cols, chunk):
        end = min(at + chunk, rows * cols)
        x = torch.arange(at, end, device="cuda", dtype=torch.int64)
        x = (x * 2654435761 + 1) & mask
        x = ((x ^ (x >> 16)) * 0x85EBCA6B) & mask
        x = ((x ^ (x >> 13)) * 0xC2B2AE35) & mask
        x = x ^ (x >> 16)
        total = (x & 255) + ((x >> 8) & 255) + ((x >> 16) & 255) + (x >> 24)
        normal = (total.float() - 510.0) * (torch.ones((), device="cuda") / 147.8)
        result[at:end] = (normal * scale).to(dtype)
    return result.view(rows, cols)


def ours(folder, program, pattern):
    """{benchmark name: row} of a bundled Google Benchmark program."""
    out = subprocess.run(
        [os.path.join(folder, "run"), "--benchmarks", program],
        env={
            **os.environ,
            "BENCHMARK_FORMAT": "json",
            "BENCHMARK_FILTER": pattern,
        },
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    ).stdout
    return rows_of(out)


def rows_of(out):
    """{benchmark name: row} of what `run` prints around the JSON; times in seconds."""
    text = out[out.index("{") : out.rindex("}") + 1]
    rows = {}
    for row in json.loads(text)["benchmarks"]:
        if row.get("error_occurred"):
            raise RuntimeError(f"{row['name']}: {row['error_message']}")
        unit = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}[row["time_unit"]]
        rows[row["name"]] = {**row, "seconds": row["real_time"] * unit}
    return rows


def pick(rows, part):
    """The one row whose name has `part` in it."""
    found = [row for name, row in rows.items() if part in name]
    if len(found) != 1:
        raise KeyError(f"{part}: {len(found)} of {list(rows)}")
    return found[0]


def line(name, mine, peer):
    print(f"{name:50s} ours {mine * 1e6:9.1f} us   peer {peer * 1e6:9.1f} us   x{peer / mine:.2f}",
          flush=True)


def casts(folder):
    rows = ours(folder, "cast_cuda_benchmark", f"/{N}/")
    mine = lambda kind: pick(rows, f"/{kind}/")["seconds"]
    x = values(N, N)
    scale = torch.tensor(100.0, device="cuda")
    cast = lambda t: (t.float() * scale).clamp(-448, 448).to(torch.float8_e4m3fn)

    line("amax", mine("amax"), gpu_time(lambda f=torch.compile(lambda t: t.abs().amax()): f(x)))
    both = torch.compile(lambda t: (cast(t), t.abs().amax()))
    line("cast + amax", mine("cast_amax"), gpu_time(lambda: both(x)))
    turned = torch.compile(lambda t: (cast(t), cast(t).t().contiguous(), t.abs().amax()))
    line("cast + transpose + amax", mine("cast_transpose_amax"), gpu_time(lambda: turned(x)))

    def current(t):
        s = 448.0 / t.abs().amax().float().clamp(min=1e-12)
        return (t.float() * s).clamp(-448, 448).to(torch.float8_e4m3fn), 1.0 / s

    line("current scaling, row-wise copy", mine("current_row_wise"),
         gpu_time(lambda f=torch.compile(current): f(x)))


def matmuls(folder):
    mine = pick(ours(folder, "matmul_cuda_benchmark", "8192/e4m3_fast"), "8192/e4m3_fast")
    codes = lambda: values(8192, 8192, scale=112.0, dtype=torch.float8_e4m3fn)
    a, b = codes(), codes().t()
    one = torch.ones((), device="cuda")
    peer = gpu_time(lambda: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16,
                                             use_fast_accum=True))
    line("e4m3 x e4m3 8192^3 -> bf16, fast accum", mine["seconds"], peer)


def scale_update(slots, reduce):
    """One update of `slots` scales as PyTorch users write it: seconds, host-bound."""
    amaxes = [torch.rand((), device="cuda") for _ in range(slots)]
    history = torch.zeros(16, slots, device="cuda")

    def step():
        nonlocal history
        now = torch.stack(amaxes)
        if reduce:
            torch.distributed.all_reduce(now, op=torch.distributed.ReduceOp.MAX)
        history = torch.roll(history, 1, 0)
        history[0] = now
        amax = history.amax(0)
        return torch.where(amax > 0, 448.0 / amax, torch.ones_like(amax))

    return gpu_time(step, batch=5)


def scale_updates(folder):
    rows = ours(folder, "exchange_cuda_benchmark", "history:16/falling")
    eager = lambda part: max(pick(rows, part)["seconds"], pick(rows, part)["host_us"] * 1e-6)
    for slots in SLOTS:
        line(f"scale update, 1 GPU, {slots} slots", eager(f"Update/slots:{slots}/"),
             scale_update(slots, reduce=False))
    if torch.cuda.device_count() < 2:
        print("scale update, 2 GPUs: not timed, needs two")
        return
    out = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
         os.path.abspath(__file__), "--reduce-only"],
        check=True, stdout=subprocess.PIPE, text=True, timeout=300,
    ).stdout
    peers = json.loads(next(text for text in out.splitlines() if text.startswith("{")))
    for slots in SLOTS:
        line(f"all-reduce + scale update, 2 GPUs, {slots} slots",
             eager(f"one_kernel/slots:{slots}/"), peers[str(slots)])


def reduce_only():
    """One of the two processes; rank 0 prints {slots: seconds}."""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")
    seconds = {slots: scale_update(slots, reduce=True) for slots in SLOTS}
    if torch.distributed.get_rank() == 0:
        print(json.dumps(seconds), flush=True)
    torch.distributed.destroy_process_group()


def linear_step(layer, size, context):
    """Seconds of a forward and backward of `layer`, in x out."""
    inputs, outputs = size
    x = torch.randn(TOKENS, inputs, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    grad = torch.randn(TOKENS, outputs, device="cuda", dtype=torch.bfloat16) * 1e-4
    with torch.no_grad():
        layer.weight.normal_(0, 0.02)

    def step():
        with context():
            y = layer(x)
        y.backward(grad)

    return gpu_time(step)


def transformer_engine_step(size):
    import transformer_engine.pytorch as te
    from transformer_engine.common.recipe import DelayedScaling, Format

    recipe = DelayedScaling(fp8_format=Format.HYBRID, amax_history_len=16, amax_compute_algo="max")
    layer = te.Linear(*size, bias=False, params_dtype=torch.bfloat16, device="cuda")
    return linear_step(layer, size, lambda: te.fp8_autocast(enabled=True, fp8_recipe=recipe))


def torchao_step(size):
    import contextlib

    from torchao.float8 import convert_to_float8_training

    model = torch.nn.Sequential(
        torch.nn.Linear(*size, bias=False, dtype=torch.bfloat16, device="cuda"))
    layer = convert_to_float8_training(model)[0]
    layer.compile()
    return linear_step(layer, size, contextlib.nullcontext)


def linears(folder):
    rows = ours(folder, "linear_step_cuda_benchmark", "Step/(delayed_hybrid|tensorwise)/")
    for package, step, preset in (
        ("transformer_engine", transformer_engine_step, "delayed_hybrid"),
        ("torchao", torchao_step, "tensorwise"),
    ):
        if importlib.util.find_spec(package) is None:
            print(f"{package}: not installed here, not timed")
            continue
        for size in LAYERS:
            mine = pick(rows, f"Step/{preset}/{size[0]}/{size[1]}/")["seconds"]
            line(f"linear {size[0]} -> {size[1]}, {preset} / {package}", mine, step(size))


def main():
    torch.manual_seed(1)
    if "--reduce-only" in sys.argv:
        reduce_only()
        return
    folder = sys.argv[1]
    casts(folder)
    matmuls(folder)
    scale_updates(folder)
    linears(folder)


if __name__ == "__main__":
    main()
