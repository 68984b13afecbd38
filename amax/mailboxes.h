// Memory of the ranks of one NVLink domain, into which they write to each
// other.
//
// Rank r's mailbox holds, for each parity of an exchange's number (epoch) and
// each sending rank, `capacity` lines of 8 bytes {word, epoch}:
//   line(parity, sender, i) = (parity * ranks + sender) * capacity + i
// A word and the epoch that it is of arrive together, so a receiver needs no
// other signal. Two parities are enough: a rank that writes for epoch e has
// completed e - 1, for which every other rank had completed e - 2.
#ifndef SCALEKEEPER_AMAX_MAILBOXES_H_
#define SCALEKEEPER_AMAX_MAILBOXES_H_

#include <cstddef>
#include <cstdint>

namespace scalekeeper {

inline constexpr int kMaxMailboxRanks = 8;

// Passed to kernels by value.
struct Mailboxes {
  uint32_t ranks = 1;
  uint32_t rank = 0;
  uint32_t capacity = 0;  // lines
  // How long a kernel waits for the other ranks.
  uint64_t deadline_ns = 0;
  // Device addresses, of every rank's mailbox as this rank reaches it.
  uint64_t* lines[kMaxMailboxRanks] = {};

  static size_t Bytes(uint32_t ranks, uint32_t capacity) {
    return size_t{2} * ranks * capacity * 2 * sizeof(uint32_t);
  }
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_MAILBOXES_H_
