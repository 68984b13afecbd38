// Hands a few bytes of rank 0 to all ranks of a job, over TCP, once.
//
// Rank 0 listens on the port, on all interfaces; the others connect, as often
// as needed until it does. Nobody waits longer than the deadline.
//
// Not for the open internet: whoever reaches the port first with a valid rank
// gets the bytes.
#ifndef SCALEKEEPER_AMAX_RENDEZVOUS_H_
#define SCALEKEEPER_AMAX_RENDEZVOUS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace scalekeeper {

struct MeetingPoint {
  int rank = 0;
  int size = 1;
  std::string address;  // of rank 0: a name, IPv4 or IPv6
  int port = 0;
};

// Collective. `bytes` is sent by rank 0; the others bring one of the same size,
// which is overwritten. Unavailable when the port cannot be had or rank 0 not
// be reached, DeadlineExceeded naming the ranks that did not come,
// FailedPrecondition when the ranks differ in `size` or two claim one rank.
absl::Status ShareFromRank0(const MeetingPoint& point, absl::Duration deadline,
                            std::string* bytes);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_RENDEZVOUS_H_
