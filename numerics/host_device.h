// The one macro that lets nvcc compile the formulas of numerics/ for both
// sides.
//
// What is in this package: formats and scale formulas, header only, no
// allocation, no state, no I/O, safe to call from any thread. Host and CUDA
// backends call these functions and have no formula of their own, so they give
// the same bits as long as one float32 operation is one rounding: build with
// -ffp-contract=off (host) and --fmad=false (nvcc), never with fast-math.
#ifndef SCALEKEEPER_NUMERICS_HOST_DEVICE_H_
#define SCALEKEEPER_NUMERICS_HOST_DEVICE_H_

#if defined(__CUDACC__)
#define SK_HOST_DEVICE __host__ __device__
#else
#define SK_HOST_DEVICE
#endif

// Before a loop of a constant number of turns whose loads are to overlap.
#if defined(__CUDA_ARCH__)
#define SK_UNROLL _Pragma("unroll")
#else
#define SK_UNROLL
#endif

#endif  // SCALEKEEPER_NUMERICS_HOST_DEVICE_H_
