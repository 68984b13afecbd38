#include "amax/gloo_mesh.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "gloo/transport/address.h"
#include "gloo/transport/context.h"
#include "gloo/transport/pair.h"
#include "gloo/transport/tcp/attr.h"
#include "gloo/transport/tcp/device.h"

namespace scalekeeper {
namespace {

// What every call of Gloo goes through.
template <typename F>
absl::Status Call(const F& f) {
  try {
    f();
    return absl::OkStatus();
  } catch (const std::exception& error) {
    return absl::UnavailableError(error.what());
  }
}

// Gloo counts milliseconds, and takes -1 for its own default.
std::chrono::milliseconds Left(absl::Time end) {
  const absl::Duration left = std::clamp(
      end - absl::Now(), absl::Milliseconds(1), absl::Hours(24 * 365));
  return std::chrono::milliseconds(
      absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
}

// An address on the wire: its length in a byte, then itself.
static_assert(gloo::transport::Address::kMaxByteSize < 256, "one byte");

}  // namespace

SigpipeGuard::SigpipeGuard() {
  sigset_t pipe, pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  was_pending_ = sigismember(&pending, SIGPIPE) == 1;
  (void)pthread_sigmask(SIG_BLOCK, &pipe, &before_);
}

SigpipeGuard::~SigpipeGuard() {
  if (!was_pending_) {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    const timespec now = {};
    (void)sigtimedwait(&pipe, nullptr, &now);
  }
  (void)pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

absl::StatusOr<std::shared_ptr<gloo::transport::Device>> CreateGlooDevice(
    const std::string& address) {
  std::shared_ptr<gloo::transport::Device> device;
  const absl::Status status = Call([&] {
    gloo::transport::tcp::attr attr;
    attr.hostname = address;
    device = gloo::transport::tcp::CreateDevice(attr);
  });
  if (status.ok()) return device;
  return absl::UnavailableError(
      absl::StrCat("no network device for address \"", address,
                   "\" of this machine: ", status.message()));
}

GlooMesh::GlooMesh(std::shared_ptr<gloo::transport::Device> device, int rank,
                   int size)
    : gloo::Context(rank, size) {
  device_ = std::move(device);
}

absl::StatusOr<std::string> GlooMesh::Listen(absl::Time end) {
  std::string addresses;
  absl::Status status = Call([&] {
    transportContext_ = device_->createContext(rank, size);
    transportContext_->setTimeout(Left(end));  // pairs copy it
    for (int peer = 0; peer < size; ++peer) {
      std::vector<char> bytes;
      if (peer != rank) {
        bytes = transportContext_->createPair(peer)->address().bytes();
      }
      addresses += static_cast<char>(bytes.size());
      addresses.append(bytes.begin(), bytes.end());
    }
  });
  if (!status.ok()) return status;
  return addresses;
}

absl::Status GlooMesh::Connect(const std::vector<std::string>& all) {
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const std::string& addresses = all[static_cast<size_t>(peer)];
    const auto length_at = [&](size_t at) {
      return at < addresses.size() ? size_t{static_cast<uint8_t>(addresses[at])}
                                   : 0;
    };
    size_t at = 0;
    for (int r = 0; r < rank; ++r) at += 1 + length_at(at);
    if (length_at(at) == 0 || at + 1 + length_at(at) > addresses.size()) {
      return absl::InternalError(
          absl::StrCat("rank ", peer, " sent no address for rank ", rank));
    }
    const char* const first = addresses.data() + at + 1;
    const std::vector<char> address(first, first + length_at(at));
    const absl::Status status =
        Call([&] { transportContext_->getPair(peer)->connect(address); });
    if (!status.ok()) {
      return absl::UnavailableError(absl::StrCat("no connection with rank ",
                                                 peer, " of ", size, ": ",
                                                 status.message()));
    }
  }
  return absl::OkStatus();
}

void GlooMesh::Close() {
  (void)Call([&] { closeConnections(); });
}

GlooMesh::Block::Block(GlooMesh* mesh, size_t size) : mesh_(mesh) {
  Grow(size);
}

void GlooMesh::Block::Grow(size_t size) {
  if (size <= bytes_.size() && buffer_ != nullptr) return;
  buffer_.reset();
  bytes_.resize(size);
  buffer_ = mesh_->createUnboundBuffer(bytes_.data(), bytes_.size());
}

absl::Status GlooMesh::Block::Send(int peer, uint64_t slot, size_t bytes) {
  SK_RETURN_IF_ERROR(Call([&] { buffer_->send(peer, slot, 0, bytes); }));
  under_way_ = true;
  return absl::OkStatus();
}

absl::Status GlooMesh::Block::PostReceive(int peer, uint64_t slot,
                                          size_t bytes) {
  return Call([&] { buffer_->recv(peer, slot, 0, bytes); });
}

absl::Status GlooMesh::Block::WaitSent(absl::Time end) {
  if (!under_way_) return absl::OkStatus();
  under_way_ = false;
  return Call([&] { buffer_->waitSend(Left(end)); });
}

absl::Status GlooMesh::Block::WaitReceived(absl::Time end) {
  return Call([&] { buffer_->waitRecv(Left(end)); });
}

}  // namespace scalekeeper
