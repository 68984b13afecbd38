#include "amax/rendezvous.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace scalekeeper {
namespace {

constexpr uint32_t kMagic = 0x53436B31;  // "SCk1"

// What a rank says first, in network byte order.
struct Hello {
  uint32_t magic, rank, size, bytes;
};

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

std::string ErrnoText() { return std::strerror(errno); }

// Whether `fd` is ready for `events` before `end`.
bool Ready(int fd, int16_t events, absl::Time end) {
  while (true) {
    const absl::Duration left = end - absl::Now();
    if (left <= absl::ZeroDuration()) return false;
    pollfd entry = {fd, events, 0};
    const absl::Duration look = std::min(left, absl::Minutes(1));  // finite
    const int n = ::poll(&entry, 1,
                         static_cast<int>(absl::ToInt64Milliseconds(look)) + 1);
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

// Sends or receives all of it; false on an error or after `end`.
bool Transfer(int fd, bool send, void* data, size_t size, absl::Time end) {
  char* next = static_cast<char*>(data);
  while (size > 0) {
    if (!Ready(fd, send ? POLLOUT : POLLIN, end)) return false;
    const ssize_t n =
        send ? ::send(fd, next, size, MSG_NOSIGNAL) : ::recv(fd, next, size, 0);
    if (n == 0 && !send) return false;
    if (n < 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      return false;
    }
    next += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

absl::StatusOr<Socket> Listen(int port) {
  Socket socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool v6 = socket.open();
  if (!v6) socket = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.open()) {
    return absl::UnavailableError(absl::StrCat("socket: ", ErrnoText()));
  }
  const int one = 1, zero = 0;
  (void)::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  sockaddr_in6 any6 = {};
  sockaddr_in any4 = {};
  any6.sin6_family = AF_INET6;
  any6.sin6_addr = in6addr_any;
  any6.sin6_port = htons(static_cast<uint16_t>(port));
  any4.sin_family = AF_INET;
  any4.sin_addr.s_addr = htonl(INADDR_ANY);
  any4.sin_port = any6.sin6_port;
  if (v6) {
    (void)::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &zero,
                       sizeof(zero));
  }
  const sockaddr* any = v6 ? reinterpret_cast<const sockaddr*>(&any6)
                           : reinterpret_cast<const sockaddr*>(&any4);
  const socklen_t length = v6 ? sizeof(any6) : sizeof(any4);
  if (::bind(socket.fd(), any, length) != 0 ||
      ::listen(socket.fd(), SOMAXCONN) != 0) {
    return absl::UnavailableError(
        absl::StrCat("rank 0 cannot listen on port ", port, ": ", ErrnoText()));
  }
  return socket;
}

absl::Status Serve(const MeetingPoint& point, absl::Duration deadline,
                   const std::string& bytes) {
  const absl::Time end = absl::Now() + deadline;
  SK_ASSIGN_OR_RETURN(const Socket listener, Listen(point.port));
  std::vector<Socket> ranks(static_cast<size_t>(point.size));
  int missing = point.size - 1;
  while (missing > 0) {
    if (!Ready(listener.fd(), POLLIN, end)) {
      std::vector<int> absent;
      for (int r = 1; r < point.size; ++r) {
        if (!ranks[static_cast<size_t>(r)].open()) absent.push_back(r);
      }
      return absl::DeadlineExceededError(absl::StrCat(
          absent.size() == 1 ? "rank " : "ranks ", absl::StrJoin(absent, ", "),
          " of ", point.size, " did not come to port ", point.port, " within ",
          absl::FormatDuration(deadline)));
    }
    Socket peer(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!peer.open()) continue;
    Hello hello = {};
    const absl::Time patience = std::min(end, absl::Now() + absl::Seconds(10));
    if (!Transfer(peer.fd(), /*send=*/false, &hello, sizeof(hello), patience) ||
        ntohl(hello.magic) != kMagic) {
      continue;  // not one of ours
    }
    const uint32_t rank = ntohl(hello.rank), size = ntohl(hello.size);
    if (size != static_cast<uint32_t>(point.size) || rank == 0 ||
        rank >= size || ntohl(hello.bytes) != bytes.size()) {
      return absl::FailedPreconditionError(
          absl::StrCat("a process that is rank ", rank, " of ", size,
                       " came to a job of ", point.size, " ranks"));
    }
    if (ranks[rank].open()) {
      return absl::FailedPreconditionError(
          absl::StrCat("two processes are rank ", rank, " of ", point.size));
    }
    ranks[rank] = std::move(peer);
    --missing;
  }
  for (int r = 1; r < point.size; ++r) {
    std::string copy = bytes;
    if (!Transfer(ranks[static_cast<size_t>(r)].fd(), /*send=*/true,
                  copy.data(), copy.size(), end)) {
      return absl::UnavailableError(
          absl::StrCat("rank ", r, " of ", point.size, " went away"));
    }
  }
  return absl::OkStatus();
}

// One attempt.
absl::StatusOr<Socket> Connect(const MeetingPoint& point, absl::Time end) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(
      point.address.c_str(), absl::StrCat(point.port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat("address \"", point.address,
                                               "\": ", ::gai_strerror(error)));
  }
  std::string last = "no address";
  Socket connected;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    Socket socket(::socket(a->ai_family,
                           SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                           a->ai_protocol));
    if (!socket.open()) continue;
    int failed =
        ::connect(socket.fd(), a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
    if (failed == EINPROGRESS) {
      const absl::Time patience = std::min(end, absl::Now() + absl::Seconds(5));
      socklen_t length = sizeof(failed);
      if (!Ready(socket.fd(), POLLOUT, patience)) {
        failed = ETIMEDOUT;
      } else if (::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &failed,
                              &length) != 0) {
        failed = errno;
      }
    }
    if (failed == 0) {
      connected = std::move(socket);
      break;
    }
    last = std::strerror(failed);
  }
  ::freeaddrinfo(found);
  if (connected.open()) return connected;
  return absl::UnavailableError(last);
}

absl::Status Ask(const MeetingPoint& point, absl::Duration deadline,
                 std::string* bytes) {
  const absl::Time end = absl::Now() + deadline;
  const std::string where = absl::StrCat("rank ", point.rank, ": rank 0 at ",
                                         point.address, ":", point.port);
  while (true) {
    absl::StatusOr<Socket> socket = Connect(point, end);
    if (!socket.ok()) {
      if (absl::Now() >= end) {
        return absl::UnavailableError(absl::StrCat(
            where, " did not answer within ", absl::FormatDuration(deadline),
            ": ", socket.status().message()));
      }
      absl::SleepFor(absl::Milliseconds(50));
      continue;
    }
    Hello hello = {htonl(kMagic), htonl(static_cast<uint32_t>(point.rank)),
                   htonl(static_cast<uint32_t>(point.size)),
                   htonl(static_cast<uint32_t>(bytes->size()))};
    if (Transfer(socket->fd(), /*send=*/true, &hello, sizeof(hello), end) &&
        Transfer(socket->fd(), /*send=*/false, bytes->data(), bytes->size(),
                 end)) {
      return absl::OkStatus();
    }
    return absl::UnavailableError(absl::StrCat(
        where, " ended the connection: another rank is missing or wrong"));
  }
}

}  // namespace

absl::Status ShareFromRank0(const MeetingPoint& point, absl::Duration deadline,
                            std::string* bytes) {
  return point.rank == 0 ? Serve(point, deadline, *bytes)
                         : Ask(point, deadline, bytes);
}

}  // namespace scalekeeper
