// Do all ranks of a group hold the same recipe and slots? Every rank learns it.
//
// A collective over one group, with nothing but AllReduceMax. When everything
// is equal it is one reduction of a few words. When not, rank 0's table is
// broadcast, each rank compares its own with it, and the difference of the
// lowest rank that differs is broadcast, so that every rank returns the same
// text, and no rank is left waiting. A rank that failed before it got here
// joins with its error, and the others return that error.
#ifndef SCALEKEEPER_AMAX_AGREEMENT_H_
#define SCALEKEEPER_AMAX_AGREEMENT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "amax/communicator.h"

namespace scalekeeper {

// What a rank brings to a group. Names and descriptions hold no tab, newline.
struct AgreementTable {
  struct Slot {
    std::string name;
    std::string description;
  };
  std::vector<Slot> slots;
  std::string recipe;  // canonical text
  std::string recipe_fingerprint;
};

// Continues a 64-bit hash over `bytes` and their length.
uint64_t HashBytes(uint64_t hash, absl::string_view bytes);

// OkStatus when no rank brings an error and all fingerprints are equal; else,
// on every rank, the error of the lowest rank that has one (its code, "rank 1:
// ..."), or FailedPrecondition naming what differs ("rank 1 lacks
// \"c/input\""), or what the communicator failed with. `table` is called only
// when fingerprints differ.
absl::Status AgreeOnTable(Communicator* communicator, Stream stream,
                          const absl::Status& local, uint64_t fingerprint,
                          const std::function<AgreementTable()>& table);

// How `own`, of rank `rank`, differs from `reference`, of rank 0; at most a few
// names of each kind. Empty when they are equal.
std::string DescribeDifference(const AgreementTable& reference,
                               const AgreementTable& own, int rank);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_AGREEMENT_H_
