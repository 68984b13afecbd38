#!/usr/bin/env python3
"""What users would pick instead, on the same sizes, beside our figures.

    tests/gpu/bundle FOLDER              # where Bazel is
    benchmarks/peers/run.py FOLDER       # on the GPU machine, needs PyTorch

Runs the bundled cast and matmul benchmarks, then PyTorch's ways to the same
results (torch.compile, _scaled_mm; stack + amax + tensor ops for a scale
update), and prints one line each: ours, the peer's, peer / ours. With two GPUs
and torchrun it also times stack + all_reduce + scale ops:

    torchrun --nproc-per-node=2 benchmarks/peers/run.py --reduce-only

TransformerEngine and torchao are timed where they are installed, and named as
absent where they are not.
"""

import importlib.util
import json
import os
import statistics
import subprocess
import sys

import torch

N = 16384


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


def ours(folder, program, pattern):
    """{benchmark name: seconds} of a bundled Google Benchmark program."""
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
    text = out[out.index("{") : out.rindex("}") + 1]
    return {
        row["name"]: row["real_time"] * {"ns": 1e-9, "us": 1e-6}[row["time_unit"]]
        for row in json.loads(text)["benchmarks"]
    }


def line(name, mine, peer):
    print(f"{name:42s} ours {mine * 1e6:9.1f} us   peer {peer * 1e6:9.1f} us   x{peer / mine:.2f}")


def casts(folder):
    mine = ours(folder, "cast_cuda_benchmark", "16384")
    pick = lambda kind: next(v for k, v in mine.items() if f"/{kind}/" in k)
    x = torch.randn(N, N, device="cuda", dtype=torch.bfloat16)
    scale = torch.tensor(100.0, device="cuda")
    cast = lambda t: (t.float() * scale).clamp(-448, 448).to(torch.float8_e4m3fn)

    line("amax", pick("amax"), gpu_time(lambda f=torch.compile(lambda t: t.abs().amax()): f(x)))
    both = torch.compile(lambda t: (cast(t), t.abs().amax()))
    line("cast + amax", pick("cast_amax"), gpu_time(lambda: both(x)))
    turned = torch.compile(lambda t: (cast(t), cast(t).t().contiguous(), t.abs().amax()))
    line("cast + transpose + amax", pick("cast_transpose_amax"), gpu_time(lambda: turned(x)))

    def current(t):
        s = 448.0 / t.abs().amax().float().clamp(min=1e-12)
        return (t.float() * s).clamp(-448, 448).to(torch.float8_e4m3fn), 1.0 / s

    line("current scaling, row-wise copy", pick("current_row_wise"),
         gpu_time(lambda f=torch.compile(current): f(x)))


def matmuls(folder):
    mine = ours(folder, "matmul_cuda_benchmark", "8192/e4m3_fast")
    a = torch.randn(8192, 8192, device="cuda").to(torch.float8_e4m3fn)
    b = torch.randn(8192, 8192, device="cuda").to(torch.float8_e4m3fn).t()
    one = torch.ones((), device="cuda")
    peer = gpu_time(lambda: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16,
                                             use_fast_accum=True))
    line("e4m3 x e4m3 8192^3 -> bf16, fast accum", next(iter(mine.values())), peer)


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


def main():
    if "--reduce-only" in sys.argv:
        torch.distributed.init_process_group("nccl")
        torch.cuda.set_device(torch.distributed.get_rank())
        for slots in (64, 512, 2048):
            seconds = scale_update(slots, reduce=True)
            if torch.distributed.get_rank() == 0:
                print(f"stack + all_reduce + scale ops, {slots:5d} slots {seconds * 1e6:9.1f} us")
        torch.distributed.destroy_process_group()
        return
    folder = sys.argv[1]
    casts(folder)
    matmuls(folder)
    for slots in (64, 512, 2048):
        print(f"stack + scale ops, 1 GPU, {slots:5d} slots {scale_update(slots, False) * 1e6:26.1f} us")
    for package in ("transformer_engine", "torchao"):
        if importlib.util.find_spec(package) is None:
            print(f"{package}: not installed here, not timed")


if __name__ == "__main__":
    main()
