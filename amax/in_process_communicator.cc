#include "amax/in_process_communicator.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

namespace scalekeeper {
namespace {

// Where the ranks of one group meet, one collective at a time.
class MeetingPlace {
 public:
  MeetingPlace(int size, absl::Duration deadline)
      : deadline_(std::min(deadline, absl::Hours(24 * 365))),
        present_(static_cast<size_t>(size)) {}

  int size() const { return static_cast<int>(present_.size()); }

  // What a rank brings to a collective.
  struct Arrival {
    bool here = false;
    absl::Span<uint32_t> data;   // of a reduction
    const char* send = nullptr;  // of a gathering
    char* receive = nullptr;
    size_t bytes = 0;

    bool gathers() const { return receive != nullptr; }
    size_t count() const { return gathers() ? bytes : data.size(); }
    std::string Describe() const {
      return absl::StrCat(count(), gathers() ? " bytes to gather" : " words");
    }
  };

  absl::Status Meet(int rank, Arrival arrival) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!broken_.ok()) return broken_;
    Arrival& mine = present_[static_cast<size_t>(rank)];
    if (mine.here) {
      return absl::FailedPreconditionError(absl::StrCat(
          "rank ", rank, " of the in-process group is in collective ",
          sequence_, " already: a handle is used by one thread at a time"));
    }
    arrival.here = true;
    mine = arrival;
    ++arrived_;
    const uint64_t sequence = sequence_;
    if (arrived_ == size()) {
      Complete();
    } else {
      const auto limit = std::chrono::steady_clock::now() +
                         absl::ToChronoNanoseconds(deadline_);
      const auto over = [&] { return sequence_ != sequence || !broken_.ok(); };
      if (!changed_.wait_until(lock, limit, over)) {
        Break(absl::DeadlineExceededError(absl::StrCat(
            "in-process collective ", sequence_, " of ", arrival.Describe(),
            ": ", AbsentRanks(), " of ", size(), " did not come within ",
            absl::FormatDuration(deadline_))));
      }
    }
    // A collective that completed stays completed, whatever broke afterwards.
    return sequence_ != sequence ? absl::OkStatus() : broken_;
  }

  void Leave(int rank) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (broken_.ok()) {
      Break(absl::UnavailableError(absl::StrCat(
          "in-process collective ", sequence_, ": rank ", rank, " of ", size(),
          " is gone, its communicator was destroyed")));
    }
  }

 private:
  // All ranks are here and sleep: their data is ours until the sequence moves.
  void Complete() {
    const Arrival& first = present_[0];
    for (size_t r = 1; r < present_.size(); ++r) {
      if (present_[r].count() != first.count() ||
          present_[r].gathers() != first.gathers()) {
        Break(absl::FailedPreconditionError(
            absl::StrCat("in-process collective ", sequence_,
                         ": rank 0 brings ", first.Describe(), ", rank ", r,
                         " brings ", present_[r].Describe())));
        return;
      }
    }
    if (first.gathers()) {
      Gather();
    } else {
      Reduce();
    }
    for (Arrival& rank : present_) rank = {};
    arrived_ = 0;
    ++sequence_;
    changed_.notify_all();
  }

  void Gather() {
    for (const Arrival& to : present_) {
      char* place = to.receive;
      for (const Arrival& from : present_) {
        place = std::copy_n(from.send, from.bytes, place);
      }
    }
  }

  void Reduce() {
    const size_t count = present_[0].data.size();
    maximum_.assign(present_[0].data.begin(), present_[0].data.end());
    for (const Arrival& rank : present_) {
      for (size_t i = 0; i < count; ++i) {
        maximum_[i] = std::max(maximum_[i], rank.data[i]);
      }
    }
    for (const Arrival& rank : present_) {
      std::copy(maximum_.begin(), maximum_.end(), rank.data.begin());
    }
  }

  void Break(absl::Status status) {
    broken_ = std::move(status);
    changed_.notify_all();
  }

  std::string AbsentRanks() const {
    std::vector<size_t> absent;
    for (size_t r = 0; r < present_.size(); ++r) {
      if (!present_[r].here) absent.push_back(r);
    }
    return absl::StrCat(absent.size() == 1 ? "rank " : "ranks ",
                        absl::StrJoin(absent, ", "));
  }

  const absl::Duration deadline_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // All guarded by mutex_.
  std::vector<Arrival> present_;
  int arrived_ = 0;
  uint64_t sequence_ = 0;
  absl::Status broken_;
  std::vector<uint32_t> maximum_;
};

class InProcessCommunicator : public Communicator {
 public:
  InProcessCommunicator(int rank, std::shared_ptr<MeetingPlace> place)
      : rank_(rank), place_(std::move(place)) {}
  ~InProcessCommunicator() override { place_->Leave(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return place_->size(); }
  absl::Status AllReduceMax(absl::Span<uint32_t> data, Stream) override {
    MeetingPlace::Arrival mine;
    mine.data = data;
    return place_->Meet(rank_, mine);
  }
  absl::Status AllGather(const void* send, void* receive, size_t bytes,
                         Stream) override {
    if (bytes != 0 && (send == nullptr || receive == nullptr)) {
      return absl::InvalidArgumentError(
          "AllGather: got a null pointer, want memory of the host");
    }
    static char nowhere;  // no bytes are written to it
    MeetingPlace::Arrival mine;
    mine.send = static_cast<const char*>(send);
    mine.receive = bytes == 0 ? &nowhere : static_cast<char*>(receive);
    mine.bytes = bytes;
    return place_->Meet(rank_, mine);
  }

 private:
  const int rank_;
  const std::shared_ptr<MeetingPlace> place_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> CreateInProcessCommunicators(
    int size, const InProcessCommunicatorOptions& options) {
  std::vector<std::unique_ptr<Communicator>> ranks;
  if (size < 1) return ranks;
  auto place = std::make_shared<MeetingPlace>(size, options.deadline);
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(std::make_unique<InProcessCommunicator>(rank, place));
  }
  return ranks;
}

}  // namespace scalekeeper
