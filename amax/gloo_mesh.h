// TCP connections of Gloo from this rank to every other rank of a group, as
// calls that return a Status: Gloo's exceptions end here.
//
// A message is sent from one block and received into another, whose memory is
// fixed while it is under way; the receiver posts its block first or later, as
// it likes. One wait that runs out of time closes all connections of the mesh
// (so does Gloo).
//
// Threads: one at a time. Gloo's own thread writes into blocks between
// PostReceive and the end of WaitReceived.
#ifndef SCALEKEEPER_AMAX_GLOO_MESH_H_
#define SCALEKEEPER_AMAX_GLOO_MESH_H_

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gloo/context.h"
#include "gloo/transport/device.h"
#include "gloo/transport/unbound_buffer.h"

namespace scalekeeper {

// While one is alive, writing to a closed connection is an error and not the
// end of the process; threads that are started meanwhile keep it so.
class SigpipeGuard {
 public:
  SigpipeGuard();
  ~SigpipeGuard();
  SigpipeGuard(const SigpipeGuard&) = delete;
  SigpipeGuard& operator=(const SigpipeGuard&) = delete;

 private:
  sigset_t before_;
  bool was_pending_;
};

// A network device with its thread; `address` is this machine's, a name or
// digits; empty: that of the host's name.
absl::StatusOr<std::shared_ptr<gloo::transport::Device>> CreateGlooDevice(
    const std::string& address);

class GlooMesh : private gloo::Context {
 public:
  class Block;

  GlooMesh(std::shared_ptr<gloo::transport::Device> device, int rank, int size);

  // What the other ranks need to connect to this one, until `end`. Once,
  // before Connect.
  absl::StatusOr<std::string> Listen(absl::Time end);
  // Collective; `all` is what Listen returned on every rank.
  absl::Status Connect(const std::vector<std::string>& all);
  // For good; blocks are of no use then.
  void Close();
};

class GlooMesh::Block {
 public:
  // Borrows the mesh.
  Block(GlooMesh* mesh, size_t size);

  char* data() { return bytes_.data(); }
  const char* data() const { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }
  // Not while a message is under way.
  void Grow(size_t size);

  // The first `bytes` bytes. A longer message than the receiver's `bytes` ends
  // its process.
  absl::Status Send(int peer, uint64_t slot, size_t bytes);
  absl::Status PostReceive(int peer, uint64_t slot, size_t bytes);
  // Of the last Send, once; else nothing is waited for. Gloo does not tell when
  // the peer's process ends meanwhile: wait where the peer is known to have the
  // message, or not long.
  absl::Status WaitSent(absl::Time end);
  absl::Status WaitReceived(absl::Time end);

 private:
  GlooMesh* const mesh_;
  std::vector<char> bytes_;
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  bool under_way_ = false;  // sent, not waited for
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_GLOO_MESH_H_
