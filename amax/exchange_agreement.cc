#include "amax/exchange_agreement.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"

namespace scalekeeper {

absl::StatusOr<ExchangeChoice> AgreeOnWish(Communicator* communicator,
                                           const ExchangeWish& wish) {
  enum : size_t { kBlocked, kOnGpu, kOnHost, kFused, kAllReduce, kAuto };
  uint32_t words[] = {
      wish.obstacle.empty() ? 0u : 1u,
      wish.on_gpu ? 1u : 0u,
      wish.on_gpu ? 0u : 1u,
      wish.wanted == Exchange::kFused ? 1u : 0u,
      wish.wanted == Exchange::kAllReduce ? 1u : 0u,
      wish.wanted == Exchange::kAuto ? 1u : 0u,
  };
  SK_RETURN_IF_ERROR(
      communicator->AllReduceMax(absl::MakeSpan(words), Stream{}));
  if (words[kOnGpu] + words[kOnHost] > 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "options.device: some ranks have their state on a GPU, others in host "
        "memory (this one ",
        wish.on_gpu ? "on a GPU" : "in host memory", "), want all alike"));
  }
  if (words[kFused] + words[kAllReduce] + words[kAuto] > 1) {
    return absl::FailedPreconditionError(
        "the ranks ask for different values of options.exchange");
  }
  ExchangeChoice choice;
  const bool blocked = words[kBlocked] != 0;
  if (wish.wanted != Exchange::kAllReduce) {
    choice.obstacle = blocked && wish.obstacle.empty() ? "another rank cannot"
                                                       : wish.obstacle;
  }
  if (blocked && wish.wanted == Exchange::kFused) {
    return absl::FailedPreconditionError(
        absl::StrCat("options.exchange: got kFused: ", choice.obstacle));
  }
  choice.fused = !blocked && wish.wanted != Exchange::kAllReduce;
  return choice;
}

}  // namespace scalekeeper
