// A Communicator that fails, delays, loses or changes chosen collectives. Test
// only.
//
// A failing call returns Aborted and leaves the data alone. By default the
// other ranks are not told (they run into their deadline); with `join` the
// inner collective takes place and only this rank's result is lost. A dropped
// call never reaches the others and returns when its deadline is over.
#ifndef SCALEKEEPER_TESTS_TESTING_FLAKY_COMMUNICATOR_H_
#define SCALEKEEPER_TESTS_TESTING_FLAKY_COMMUNICATOR_H_

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "amax/communicator.h"

namespace scalekeeper {

class FlakyCommunicator : public Communicator {
 public:
  explicit FlakyCommunicator(Communicator* inner) : inner_(inner) {}

  // Counted from 0, over all calls of this object; -1: none.
  int64_t fail_call = -1;
  bool join = false;
  int64_t drop_call = -1;
  absl::Duration drop_deadline = absl::Milliseconds(100);
  // This rank brings one word more than it was asked to.
  int64_t wrong_size_call = -1;
  // Before each call.
  absl::Duration delay;
  // Sees, and may change, what this rank sends.
  std::function<void(int64_t call, absl::Span<uint32_t>)> tamper;

  int64_t calls() const { return calls_; }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  absl::Status AllReduceMax(absl::Span<uint32_t> data, Stream stream) override {
    const int64_t call = calls_++;
    if (delay > absl::ZeroDuration()) {
      std::this_thread::sleep_for(absl::ToChronoNanoseconds(delay));
    }
    if (call == fail_call) {
      if (join) {
        std::vector<uint32_t> lost(data.begin(), data.end());
        (void)inner_->AllReduceMax(absl::MakeSpan(lost), stream);
      }
      return absl::AbortedError(absl::StrCat("injected into call ", call));
    }
    if (call == drop_call) {
      std::this_thread::sleep_for(absl::ToChronoNanoseconds(drop_deadline));
      return absl::DeadlineExceededError(
          absl::StrCat("dropped call ", call, ": no answer within ",
                       absl::FormatDuration(drop_deadline)));
    }
    if (call == wrong_size_call) {
      std::vector<uint32_t> longer(data.begin(), data.end());
      longer.push_back(0);
      return inner_->AllReduceMax(absl::MakeSpan(longer), stream);
    }
    if (tamper) tamper(call, data);
    return inner_->AllReduceMax(data, stream);
  }

 private:
  Communicator* const inner_;
  int64_t calls_ = 0;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_TESTING_FLAKY_COMMUNICATOR_H_
