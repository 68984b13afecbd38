// What a step of amax state costs on GPUs: the update alone (Update/), and with
// the exchange between two ranks on one host (Exchange/, two GPUs), by one
// kernel or by an all-reduce and an update.
//
//   exchange_cuda_benchmark --benchmark_filter=Update/
//   exchange_cuda_benchmark --benchmark_filter=slots:2048/
//
// Time is the GPU's per step: 20 steps in a CUDA graph, replayed; the time of a
// graph that only refreshes the observations (refresh_cuda.h) is subtracted.
// Counters: `host_us`, what a call of EndStep costs the host, eager;
// `allreduce_us`, ncclAllReduce of the same words alone, and `over_us`, how
// much more than it a step takes. A row's label says how it exchanged.
//
// Observations: none, constant, falling, or trace: the amaxes of a real run
// (tests/data/traces, read from the working directory), of rank 0 and rank 1.
//
// Ends by itself within two minutes.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "amax/nccl_communicator.h"
#include "amax/recipe_state.h"
#include "base/buffer.h"
#include "base/cuda/device_guard_cuda.h"
#include "base/cuda/handles_cuda.h"
#include "base/device_memory.h"
#include "benchmark/benchmark.h"
#include "benchmarks/refresh_cuda.h"
#include "nccl.h"
#include "recipe/recipe.h"

namespace scalekeeper {
namespace {

constexpr int kStepsPerGraph = 20;
constexpr int kReplays = 20;
constexpr int kTraceRows = 1000;
constexpr int kSizes[] = {64, 512, 2048, 16384, 100000};
constexpr int kHistories[] = {16, 1024};

struct NamedObservation {
  const char* name;
  Observed observed;
};
constexpr NamedObservation kObservations[] = {{"none", Observed::kNone},
                                              {"constant", Observed::kConstant},
                                              {"falling", Observed::kFalling},
                                              {"trace", Observed::kTrace}};

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

template <typename T>
Buffer Upload(int device, const std::vector<T>& values) {
  Buffer buffer = ValueOrDie(
      Buffer::Allocate(ValueOrDie(DefaultAllocator(Device::Cuda(device))),
                       values.size() * sizeof(T)));
  Die(CopyFromHost(Device::Cuda(device), buffer.data(), values.data(),
                   buffer.size(), Stream{}));
  return buffer;
}

// The amaxes of a rank's trace, kTraceRows rows; empty without the file.
const std::vector<uint32_t>& TraceBits(int rank) {
  static auto* const traces = new std::array<std::vector<uint32_t>, 2>([] {
    std::array<std::vector<uint32_t>, 2> read;
    for (size_t r = 0; r < 2; ++r) {
      std::ifstream file(
          absl::StrCat("tests/data/traces/amax_rank", r, ".csv"));
      std::string line;
      std::getline(file, line);  // the names
      for (int row = 0; row < kTraceRows && std::getline(file, line); ++row) {
        const std::vector<std::string> cells = absl::StrSplit(line, ',');
        for (size_t i = 2; i < cells.size(); ++i) {  // after step and loss
          float value = 0;
          if (!absl::SimpleAtof(cells[i], &value)) {
            Die(absl::InvalidArgumentError(
                absl::StrCat("trace of rank ", r, ": got \"", cells[i], "\"")));
          }
          uint32_t bits = 0;
          std::memcpy(&bits, &value, sizeof(bits));
          read[r].push_back(bits);
        }
      }
    }
    return read;
  }());
  return (*traces)[static_cast<size_t>(rank)];
}

// One rank with its state, stream and observations.
class Rank {
 public:
  Rank(int device, int slots, int history, Communicator* communicator,
       Exchange exchange)
      : communicator_(communicator) {
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
    refresh_.words = words_.as<uint32_t*>();
    refresh_.count = slots;
    counters_ = Upload(
        device, std::vector<uint32_t>(static_cast<size_t>(refresh_.Blocks())));
    refresh_.counters = counters_.as<uint32_t>();
    const std::vector<uint32_t>& trace = TraceBits(device);
    if (trace.empty()) return;
    trace_ = Upload(device, trace);
    refresh_.trace = trace_.as<uint32_t>();
    refresh_.trace_rows = kTraceRows;
    refresh_.trace_cols = static_cast<int>(trace.size()) / kTraceRows;
  }

  // Waits for the other rank: a kernel that waits for it must not be queued
  // while it still allocates or instantiates.
  void Meet() {
    uint32_t word = 0;
    if (communicator_ != nullptr) {
      Die(communicator_->AllReduceMax(absl::MakeSpan(&word, 1), Stream{}));
    }
  }
  Stream stream() const { return AsStream(stream_); }
  cudaStream_t cuda_stream() const { return stream_.get(); }
  RecipeState& state() { return *state_; }
  // "one kernel, no other rank"
  std::string Path() const {
    std::string text = state_->Describe();
    text = text.substr(text.rfind("step: ") + 6);
    text.pop_back();
    return text;
  }

  void Refresh(Observed observed) {
    refresh_.observed = observed;
    Check(QueueRefresh(refresh_, cuda_stream()), "QueueRefresh");
  }

 private:
  Communicator* const communicator_;
  CudaStream stream_;
  std::unique_ptr<RecipeState> state_;
  scalekeeper::Refresh refresh_;
  Buffer words_, counters_, trace_;
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

void OnBoth(const std::function<void(int)>& body) {
  std::thread other([&] {
    Check(cudaSetDevice(1), "cudaSetDevice");
    body(1);
  });
  Check(cudaSetDevice(0), "cudaSetDevice");
  body(0);
  other.join();
}

// Two GPUs, and what was measured of them.
class Pair {
 public:
  Pair() : comms_(2), group_(2) {
    const int devices[] = {0, 1};
    if (ncclCommInitAll(comms_.data(), 2, devices) != ncclSuccess) {
      Die(absl::InternalError("ncclCommInitAll"));
    }
    NcclCommunicatorOptions options;
    options.deadline = absl::Seconds(20);
    OnBoth([&](int r) {
      const size_t rank = static_cast<size_t>(r);
      group_[rank] = ValueOrDie(BorrowNcclCommunicator(comms_[rank], options));
    });
  }
  ~Pair() {
    group_.clear();
    for (ncclComm_t comm : comms_) (void)ncclCommDestroy(comm);
  }

  Communicator* rank(int r) { return group_[static_cast<size_t>(r)].get(); }

  // NCCL's all-reduce of the words of so many slots, alone.
  double AllReduceAlone(int slots) {
    const auto it = alone_.find(slots);
    if (it != alone_.end()) return it->second;
    double us[2] = {};
    OnBoth([&](int r) {
      const CudaStream stream = ValueOrDie(CreateCudaStream());
      const size_t words = static_cast<size_t>(slots) + 5;
      const Buffer send = Upload(r, std::vector<uint32_t>(words, 1));
      Buffer receive = Upload(r, std::vector<uint32_t>(words));
      const auto reduce = [&] {
        if (ncclAllReduce(send.data(), receive.data(), words, ncclInt32,
                          ncclMax, comms_[static_cast<size_t>(r)],
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
    return alone_[slots] = us[0];
  }

 private:
  std::vector<ncclComm_t> comms_;
  std::vector<std::unique_ptr<Communicator>> group_;
  std::map<int, double> alone_;
};

// The ranks of the last row, for the next one of the same kind; and the pair.
struct Machine {
  using Kind = std::tuple<int, int, int, Exchange>;  // ranks, slots, history
  Kind kind = {0, 0, 0, Exchange::kAuto};
  std::unique_ptr<Pair> pair;
  std::array<std::unique_ptr<Rank>, 2> ranks;
  double host_us = 0;

  void Clear() {
    ranks[1].reset();  // one after the other
    ranks[0].reset();
  }
  ~Machine() { Clear(); }

  void On(int count, const std::function<void(int)>& body) {
    if (count == 2) return OnBoth(body);
    Check(cudaSetDevice(0), "cudaSetDevice");
    body(0);
  }
  void Become(const Kind& wanted) {
    if (wanted == kind) return;
    Clear();
    const auto& [count, slots, history, exchange] = wanted;
    if (count == 2 && pair == nullptr) pair = std::make_unique<Pair>();
    On(count, [&, slots = slots, history = history, exchange = exchange,
               count = count](int r) {
      ranks[static_cast<size_t>(r)] = std::make_unique<Rank>(
          r, slots, history, count == 2 ? pair->rank(r) : nullptr, exchange);
      const double us = TimeHost(ranks[static_cast<size_t>(r)].get());
      if (r == 0) host_us = us;
    });
    kind = wanted;
  }
};

void Run(benchmark::State& state, Machine* machine, const Machine::Kind& kind,
         Observed observed) {
  if (observed == Observed::kTrace && TraceBits(0).empty()) {
    state.SkipWithError("tests/data/traces is not in the working directory");
    return;
  }
  machine->Become(kind);
  const int count = std::get<0>(kind);
  double us = 0;
  for (auto _ : state) {
    machine->On(count, [&](int r) {
      const double mine =
          TimeSteps(machine->ranks[static_cast<size_t>(r)].get(), observed);
      if (r == 0) us = mine;
    });
    state.SetIterationTime(us * 1e-6);
  }
  state.counters["host_us"] = machine->host_us;
  if (count == 2) {
    const double alone = machine->pair->AllReduceAlone(std::get<1>(kind));
    state.counters["allreduce_us"] = alone;
    state.counters["over_us"] = us - alone;
  }
  state.SetLabel(machine->ranks[0]->Path());
}

void Register(const std::string& name, Machine* machine, int ranks,
              Exchange exchange) {
  for (int slots : kSizes) {
    for (int history : kHistories) {
      for (const auto& [observed_name, observed] : kObservations) {
        benchmark::RegisterBenchmark(
            absl::StrCat(name, "/slots:", slots, "/history:", history, "/",
                         observed_name)
                .c_str(),
            [=, kind = Machine::Kind(ranks, slots, history, exchange),
             observed = observed](benchmark::State& state) {
              Run(state, machine, kind, observed);
            })
            ->UseManualTime()
            ->Iterations(1)
            ->Unit(benchmark::kMicrosecond);
      }
    }
  }
}

}  // namespace
}  // namespace scalekeeper

int main(int argc, char** argv) {
  (void)::alarm(115);
  (void)::setenv("NCCL_NVLS_ENABLE", "0", /*overwrite=*/1);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus < 1) {
    std::fprintf(stderr, "needs a GPU\n");
    return 0;
  }
  scalekeeper::Machine machine;
  using scalekeeper::Exchange;
  scalekeeper::Register("Update", &machine, 1, Exchange::kAuto);
  if (gpus >= 2) {
    scalekeeper::Register("Exchange/one_kernel", &machine, 2, Exchange::kFused);
    scalekeeper::Register("Exchange/allreduce", &machine, 2,
                          Exchange::kAllReduce);
  } else {
    std::fprintf(stderr, "one GPU: no exchange is measured\n");
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
