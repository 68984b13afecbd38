// The ranks of a group of GPUs agree on how they exchange amaxes.
//
// Threads: none of its own; as the Communicator.
//
// Example:
//   ExchangeWish wish;
//   wish.wanted = options.exchange;
//   wish.on_gpu = true;
//   SK_ASSIGN_OR_RETURN(ExchangeChoice choice,
//                       AgreeOnWish(communicator, wish));
//   if (choice.fused) ...  // on every rank, or on none
#ifndef SCALEKEEPER_AMAX_EXCHANGE_AGREEMENT_H_
#define SCALEKEEPER_AMAX_EXCHANGE_AGREEMENT_H_

#include <string>

#include "absl/status/statusor.h"
#include "amax/communicator.h"
#include "amax/exchange.h"

namespace scalekeeper {

// What one rank asks for and can do.
struct ExchangeWish {
  Exchange wanted = Exchange::kAuto;
  bool on_gpu = false;   // where the rank's state lies
  std::string obstacle;  // why it cannot exchange in one kernel, or ""
};

struct ExchangeChoice {
  bool fused = false;    // try it: every rank can
  std::string obstacle;  // why not, where it was not asked away
};

// Collective, one reduction; the same outcome on every rank. FailedPrecondition
// when the ranks ask for different values, when only some of their states are
// on GPUs (their steps are not the same calls), or when kFused is asked for and
// one of them cannot. Errors of the reduction otherwise.
absl::StatusOr<ExchangeChoice> AgreeOnWish(Communicator* communicator,
                                           const ExchangeWish& wish);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_EXCHANGE_AGREEMENT_H_
