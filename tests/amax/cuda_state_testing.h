// Small helpers for tests of RecipeState on GPUs. They end the test on an
// error.
#ifndef SCALEKEEPER_TESTS_AMAX_CUDA_STATE_TESTING_H_
#define SCALEKEEPER_TESTS_AMAX_CUDA_STATE_TESTING_H_

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "amax/recipe_state.h"
#include "base/buffer.h"
#include "base/cuda/handles_cuda.h"
#include "base/device_memory.h"
#include "cuda_runtime_api.h"
#include "gtest/gtest.h"
#include "tests/amax/state_testing.h"

namespace scalekeeper {

inline void DieUnlessOk(const absl::Status& status) {
  if (status.ok()) return;
  ADD_FAILURE() << status;
  std::abort();
}

inline int GpuCount() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

// By how much everything is slower than usual, under a sanitizer for instance:
// SCALEKEEPER_TEST_DEADLINE_FACTOR, or 1.
inline int DeadlineFactor() {
  const char* const text = std::getenv("SCALEKEEPER_TEST_DEADLINE_FACTOR");
  const int factor = text == nullptr ? 1 : std::atoi(text);
  return factor < 1 ? 1 : factor;
}

// What a test gives others time for.
inline absl::Duration Within(absl::Duration usual) {
  return usual * DeadlineFactor();
}

// Ends the process after so many seconds, whatever hangs: the alarm signal is
// not handled.
inline void EndProcessAfter(unsigned seconds) {
  (void)::alarm(seconds * static_cast<unsigned>(DeadlineFactor()));
}

// Words of device memory that the host reads and writes; both wait.
class DeviceWords {
 public:
  DeviceWords(Device device, size_t count)
      : device_(device),
        buffer_(ValueOrDie(Buffer::Allocate(
            ValueOrDie(DefaultAllocator(device)), count * sizeof(uint32_t)))) {
    Write(std::vector<uint32_t>(count));
  }
  uint32_t* data() { return buffer_.as<uint32_t>(); }
  void Write(const std::vector<uint32_t>& words) {
    DieUnlessOk(CopyFromHost(device_, data(), words.data(),
                             words.size() * sizeof(uint32_t), Stream{}));
  }
  std::vector<uint32_t> Read() {
    std::vector<uint32_t> words(buffer_.size() / sizeof(uint32_t));
    DieUnlessOk(
        CopyToHost(device_, words.data(), data(), buffer_.size(), Stream{}));
    return words;
  }

 private:
  const Device device_;
  Buffer buffer_;
};

template <typename T>
T ReadDevice(Device device, const T* address, Stream stream) {
  T value;
  DieUnlessOk(CopyToHost(device, &value, address, sizeof(value), stream));
  return value;
}

// Writes the slot's amax word, as a foreign kernel would.
inline void SetAmax(const RecipeState& state, SlotId slot, uint32_t bits,
                    Stream stream) {
  DieUnlessOk(CopyFromHost(state.device(), state.View(slot).amax, &bits,
                           sizeof(bits), stream));
}

// What `body` queues on the stream, as a graph.
template <typename Body>
CudaGraphExec Capture(const CudaStream& stream, const Body& body) {
  const auto check = [](cudaError_t error, const char* call) {
    DieUnlessOk(CudaStatus(error, call));
  };
  check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
  body();
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream.get(), &graph), "cudaStreamEndCapture");
  const CudaGraph owner(graph);
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
  return CudaGraphExec(exec);
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_AMAX_CUDA_STATE_TESTING_H_
