// What a step of amax state costs on GPUs: the update alone, and with the
// exchange between two ranks on one host, by both paths and by NCCL's
// all-reduce alone. Prints tables; ends by itself within two minutes.
//
//   us/step   20 steps in a CUDA graph, replayed; the time of a graph that only
//             refreshes the observations is subtracted
//   host us   what a call of EndStep costs the host, eager
//
// Observations: `none` (nothing is pushed), `constant`, or `falling`, the worst
// case for the maximum of a window: what leaves it is always the largest.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "amax/nccl_communicator.h"
#include "amax/recipe_state.h"
#include "base/buffer.h"
#include "base/cuda/device_guard_cuda.h"
#include "base/cuda/handles_cuda.h"
#include "base/device_memory.h"
#include "nccl.h"
#include "recipe/recipe.h"

namespace scalekeeper {
namespace {

constexpr int kStepsPerGraph = 20;
constexpr int kReplays = 20;
constexpr int kBlock = 256;

enum class Observed { kNone, kConstant, kFalling };

void Die(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}
template <typename T>
T ValueOrDie(absl::StatusOr<T> value) {
  Die(value.status());
  return *std::move(value);
}
void Check(cudaError_t error, const char* call) {
  Die(CudaStatus(error, call));
}

// Every block counts for itself.
__global__ void RefreshKernel(uint32_t** words, uint32_t* counters, int count,
                              bool falling) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const uint32_t step = counters[blockIdx.x];
  if (i < count) *words[i] = 0x7F000000u - (falling ? step : 0);
  __syncthreads();
  if (threadIdx.x == 0) counters[blockIdx.x] = step + 1;
}

template <typename T>
Buffer Upload(int device, const std::vector<T>& values) {
  Buffer buffer = ValueOrDie(
      Buffer::Allocate(ValueOrDie(DefaultAllocator(Device::Cuda(device))),
                       values.size() * sizeof(T)));
  Die(CopyFromHost(Device::Cuda(device), buffer.data(), values.data(),
                   buffer.size(), Stream{}));
  return buffer;
}

// One rank with its state, stream and observations.
class Rank {
 public:
  Rank(int device, int slots, int history, Communicator* communicator,
       Exchange exchange)
      : slots_(slots), communicator_(communicator) {
    Check(cudaSetDevice(device), "cudaSetDevice");
    stream_ = ValueOrDie(CreateCudaStream());
    RecipeStateOptions options;
    options.device = Device::Cuda(device);
    options.exchange = exchange;
    if (communicator != nullptr) options.groups["default"] = communicator;
    state_ = ValueOrDie(RecipeState::Create(
        ValueOrDie(Recipe::Parse(
            absl::StrCat("defaults { all { format: E4M3 delayed { "
                         "amax_history_len: ",
                         history, " } } }"),
            "benchmark.textproto")),
        options));
    std::vector<SlotId> ids;
    for (int i = 0; i < slots; ++i) {
      ids.push_back(
          ValueOrDie(state_->AddSlot(absl::StrCat("m", i), "x", Role::kInput)));
    }
    Die(state_->Freeze());
    std::vector<uint32_t*> words;
    for (SlotId id : ids) words.push_back(state_->View(id).amax);
    std::sort(words.begin(), words.end());
    words_ = Upload(device, words);
    counters_ =
        Upload(device, std::vector<uint32_t>(static_cast<size_t>(Blocks())));
  }

  // Waits for the other rank: a kernel that waits for it must not be queued
  // while it still allocates or instantiates.
  void Meet() {
    uint32_t word = 0;
    if (communicator_ != nullptr) {
      Die(communicator_->AllReduceMax(absl::MakeSpan(&word, 1), Stream{}));
    }
  }
  int Blocks() const { return (slots_ + kBlock - 1) / kBlock; }
  Stream stream() const { return AsStream(stream_); }
  cudaStream_t cuda_stream() const { return stream_.get(); }
  RecipeState& state() { return *state_; }

  void Refresh(Observed observed) {
    if (observed == Observed::kNone) return;
    RefreshKernel<<<static_cast<unsigned>(Blocks()), kBlock, 0,
                    stream_.get()>>>(words_.as<uint32_t*>(),
                                     counters_.as<uint32_t>(), slots_,
                                     observed == Observed::kFalling);
  }

 private:
  const int slots_;
  Communicator* const communicator_;
  CudaStream stream_;
  std::unique_ptr<RecipeState> state_;
  Buffer words_, counters_;
};

template <typename Body>
CudaGraphExec Capture(cudaStream_t stream, const Body& body) {
  Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
  for (int i = 0; i < kStepsPerGraph; ++i) body();
  cudaGraph_t graph = nullptr;
  Check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  const CudaGraph owner(graph);
  cudaGraphExec_t exec = nullptr;
  Check(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
  return CudaGraphExec(exec);
}

// Microseconds per step of the best of three runs of replays.
double Replay(cudaStream_t stream, const CudaGraphExec& graph) {
  const CudaEvent begin = ValueOrDie(CreateCudaEvent());
  const CudaEvent end = ValueOrDie(CreateCudaEvent());
  double best = 1e30;
  for (int run = 0; run < 4; ++run) {  // the first one warms up
    Check(cudaEventRecord(begin.get(), stream), "cudaEventRecord");
    for (int i = 0; i < kReplays; ++i) {
      Check(cudaGraphLaunch(graph.get(), stream), "cudaGraphLaunch");
    }
    Check(cudaEventRecord(end.get(), stream), "cudaEventRecord");
    Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    float ms = 0;
    Check(cudaEventElapsedTime(&ms, begin.get(), end.get()),
          "cudaEventElapsedTime");
    if (run > 0) best = std::min(best, ms * 1e3 / (kReplays * kStepsPerGraph));
  }
  return best;
}

double TimeSteps(Rank* rank, Observed observed) {
  const CudaGraphExec steps = Capture(rank->cuda_stream(), [&] {
    rank->Refresh(observed);
    Die(rank->state().EndStep(rank->stream()));
  });
  const CudaGraphExec refreshes = Capture(rank->cuda_stream(), [&] {
    rank->Refresh(observed == Observed::kNone ? Observed::kConstant : observed);
  });
  rank->Meet();
  double us = Replay(rank->cuda_stream(), steps);
  if (observed != Observed::kNone) us -= Replay(rank->cuda_stream(), refreshes);
  const absl::Status status = rank->state().Check(rank->stream());
  if (!status.ok() && status.code() != absl::StatusCode::kOutOfRange) {
    Die(status);
  }
  return us;
}

double TimeHost(Rank* rank) {
  rank->Meet();
  constexpr int kSteps = 200;
  double best = 1e30;
  for (int run = 0; run < 3; ++run) {
    Check(cudaStreamSynchronize(rank->cuda_stream()), "cudaStreamSynchronize");
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kSteps; ++i) {
      Die(rank->state().EndStep(rank->stream()));
    }
    const std::chrono::duration<double, std::micro> us =
        std::chrono::steady_clock::now() - begin;
    best = std::min(best, us.count() / kSteps);
  }
  Check(cudaStreamSynchronize(rank->cuda_stream()), "cudaStreamSynchronize");
  return best;
}

constexpr int kSizes[] = {64, 512, 2048, 16384, 100000};

void OneGpu() {
  std::printf(
      "\nOne GPU, one kernel per step, us/step\n%8s %8s %8s %9s %8s %8s\n",
      "slots", "history", "none", "constant", "falling", "host us");
  for (int slots : kSizes) {
    for (int history : {16, 1024}) {
      Rank rank(0, slots, history, nullptr, Exchange::kAuto);
      const double none = TimeSteps(&rank, Observed::kNone);
      const double constant = TimeSteps(&rank, Observed::kConstant);
      const double falling = TimeSteps(&rank, Observed::kFalling);
      std::printf("%8d %8d %8.2f %9.2f %8.2f %8.2f\n", slots, history, none,
                  constant, falling, TimeHost(&rank));
      std::fflush(stdout);
    }
  }
}

void OnBoth(const std::function<void(int)>& body) {
  std::thread other([&] {
    Check(cudaSetDevice(1), "cudaSetDevice");
    body(1);
  });
  Check(cudaSetDevice(0), "cudaSetDevice");
  body(0);
  other.join();
}

struct Row {
  double none = 0, constant = 0, falling = 0, host = 0;
  std::string path;
};

Row TwoGpuRow(const std::vector<std::unique_ptr<Communicator>>& group,
              int slots, int history, Exchange exchange) {
  Row rows[2];
  std::unique_ptr<Rank> ranks[2];
  OnBoth([&](int r) {
    ranks[r] = std::make_unique<Rank>(
        r, slots, history, group[static_cast<size_t>(r)].get(), exchange);
    Rank* const rank = ranks[r].get();
    rows[r].none = TimeSteps(rank, Observed::kNone);
    rows[r].constant = TimeSteps(rank, Observed::kConstant);
    rows[r].falling = TimeSteps(rank, Observed::kFalling);
    rows[r].host = TimeHost(rank);
    rows[r].path = rank->state().Describe();
  });
  ranks[1].reset();  // one after the other
  ranks[0].reset();
  rows[0].path = rows[0].path.substr(rows[0].path.rfind("step: ") + 6);
  rows[0].path.pop_back();
  return rows[0];
}

// NCCL's all-reduce of the same words, alone.
double AllReduceAlone(const std::vector<ncclComm_t>& comms, int slots) {
  double us[2] = {};
  OnBoth([&](int r) {
    const CudaStream stream = ValueOrDie(CreateCudaStream());
    const size_t words = static_cast<size_t>(slots) + 5;
    const Buffer send = Upload(r, std::vector<uint32_t>(words, 1));
    Buffer receive = Upload(r, std::vector<uint32_t>(words));
    const auto reduce = [&] {
      if (ncclAllReduce(send.data(), receive.data(), words, ncclInt32, ncclMax,
                        comms[static_cast<size_t>(r)],
                        stream.get()) != ncclSuccess) {
        Die(absl::InternalError("ncclAllReduce"));
      }
    };
    const auto reduce_and_wait = [&] {
      reduce();
      Check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    };
    reduce_and_wait();  // connects
    const CudaGraphExec graph = Capture(stream.get(), reduce);
    reduce_and_wait();  // both ranks are ready
    us[r] = Replay(stream.get(), graph);
  });
  return us[0];
}

void TwoGpus() {
  std::vector<ncclComm_t> comms(2);
  const int devices[] = {0, 1};
  if (ncclCommInitAll(comms.data(), 2, devices) != ncclSuccess) {
    Die(absl::InternalError("ncclCommInitAll"));
  }
  std::vector<std::unique_ptr<Communicator>> group(2);
  NcclCommunicatorOptions options;
  options.deadline = absl::Seconds(20);
  OnBoth([&](int r) {
    const size_t rank = static_cast<size_t>(r);
    group[rank] = ValueOrDie(BorrowNcclCommunicator(comms[rank], options));
  });
  std::printf(
      "\nTwo GPUs, us/step (ncclAllReduce alone beside it)\n%8s %8s %10s %8s "
      "%9s %8s %8s  %s\n",
      "slots", "history", "allreduce", "none", "constant", "falling", "host us",
      "path");
  for (int slots : kSizes) {
    const double alone = AllReduceAlone(comms, slots);
    for (Exchange exchange : {Exchange::kAuto, Exchange::kAllReduce}) {
      for (int history : {16, 1024}) {
        const Row row = TwoGpuRow(group, slots, history, exchange);
        std::printf("%8d %8d %10.2f %8.2f %9.2f %8.2f %8.2f  %s\n", slots,
                    history, alone, row.none, row.constant, row.falling,
                    row.host, row.path.c_str());
        std::fflush(stdout);
      }
    }
  }
  group.clear();
  for (ncclComm_t comm : comms) (void)ncclCommDestroy(comm);
}

int Main() {
  (void)::alarm(115);
  (void)::setenv("NCCL_NVLS_ENABLE", "0", /*overwrite=*/1);
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus < 1) {
    std::printf("needs a GPU\n");
    return 0;
  }
  OneGpu();
  if (gpus >= 2) {
    TwoGpus();
  } else {
    std::printf("\none GPU: no exchange measured\n");
  }
  return 0;
}

}  // namespace
}  // namespace scalekeeper

int main() { return scalekeeper::Main(); }
