// Lets this thread allocate and load kernels while some stream is captured.
//
// What a first call prepares (memory, handles, kernels) is no part of a graph;
// CUDA's default capture mode would refuse it and void the capture.
//
// Example:
//   RelaxedCaptureMode relaxed;      // until the end of the scope
#ifndef SCALEKEEPER_GEMM_CAPTURE_MODE_CUDA_H_
#define SCALEKEEPER_GEMM_CAPTURE_MODE_CUDA_H_

#include "cuda_runtime_api.h"

namespace scalekeeper {

class RelaxedCaptureMode {
 public:
  RelaxedCaptureMode() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCaptureMode(const RelaxedCaptureMode&) = delete;
  RelaxedCaptureMode& operator=(const RelaxedCaptureMode&) = delete;
  ~RelaxedCaptureMode() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_GEMM_CAPTURE_MODE_CUDA_H_
