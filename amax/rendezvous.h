// How the processes of a job find each other, once: a few bytes of rank 0 go to
// all ranks, or those of each rank to all of them.
//
// Over TCP rank 0 listens on the port, on all interfaces; the others connect,
// as often as needed until it does. Over files each rank writes one into a
// directory that all of them see. Nobody waits longer than the deadline.
//
// Not for the open internet: whoever reaches the port first with a valid rank
// gets the bytes.
#ifndef SCALEKEEPER_AMAX_RENDEZVOUS_H_
#define SCALEKEEPER_AMAX_RENDEZVOUS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace scalekeeper {

struct MeetingPoint {
  int rank = 0;
  int size = 1;
  std::string address;  // of rank 0: a name, IPv4 or IPv6
  int port = 0;
};

// From the variables RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Errors name
// the variable and its value (InvalidArgument, NotFound).
absl::StatusOr<MeetingPoint> MeetingPointFromEnvironment();

// A whole number in low..high from the environment; errors as above.
absl::StatusOr<int> NumberFromEnvironment(const char* name, int low, int high);

// Collective. `bytes` is sent by rank 0; the others bring one of the same size,
// which is overwritten. Unavailable when the port cannot be had or rank 0 not
// be reached, DeadlineExceeded naming the ranks that did not come,
// FailedPrecondition when the ranks differ in `size` or two claim one rank.
absl::Status ShareFromRank0(const MeetingPoint& point, absl::Duration deadline,
                            std::string* bytes);

// Collective: what every rank brought (up to 16 MiB each), in the order of
// ranks, on every rank. Errors as ShareFromRank0.
absl::StatusOr<std::vector<std::string>> ExchangeThroughRank0(
    const MeetingPoint& point, absl::Duration deadline,
    absl::string_view bytes);

// The same through files "<name>.<rank>" in a directory that exists and in
// which no such file is left from another job: AlreadyExists then.
// DeadlineExceeded naming the ranks that wrote none.
absl::StatusOr<std::vector<std::string>> ExchangeThroughFiles(
    const std::string& directory, absl::string_view name, int rank, int size,
    absl::Duration deadline, absl::string_view bytes);

// The address of this machine from which `point` is reached, as digits.
absl::StatusOr<std::string> LocalAddressTowards(const MeetingPoint& point);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_RENDEZVOUS_H_
