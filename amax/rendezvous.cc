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
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace scalekeeper {
namespace {

// What a rank comes for; the magic number of its hello.
enum class Purpose : uint32_t {
  kShare = 0x53436B31,     // "SCk1": the answer is the bytes of rank 0
  kExchange = 0x53436B32,  // "SCk2": the rank's bytes follow; the answer is its
                           // length, then for each rank a length and bytes
};

constexpr uint32_t kMaxExchanged = uint32_t{16} << 20;

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

std::string NetworkLength(size_t length) {
  const uint32_t word = htonl(static_cast<uint32_t>(length));
  return std::string(reinterpret_cast<const char*>(&word), sizeof(word));
}

// Rank 0's part; returns what all ranks are answered.
absl::StatusOr<std::string> Serve(const MeetingPoint& point,
                                  absl::Duration deadline, Purpose purpose,
                                  absl::string_view own) {
  const absl::Time end = absl::Now() + deadline;
  const bool exchange = purpose == Purpose::kExchange;
  SK_ASSIGN_OR_RETURN(const Socket listener, Listen(point.port));
  std::vector<Socket> ranks(static_cast<size_t>(point.size));
  std::vector<std::string> brought(ranks.size());
  brought[0] = std::string(own);
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
        ntohl(hello.magic) != static_cast<uint32_t>(purpose)) {
      continue;  // not one of ours
    }
    const uint32_t rank = ntohl(hello.rank), size = ntohl(hello.size);
    const uint32_t bytes = ntohl(hello.bytes);
    if (size != static_cast<uint32_t>(point.size) || rank == 0 ||
        rank >= size ||
        (exchange ? bytes > kMaxExchanged : bytes != own.size())) {
      return absl::FailedPreconditionError(
          absl::StrCat("a process that is rank ", rank, " of ", size,
                       " came to a job of ", point.size, " ranks"));
    }
    if (ranks[rank].open()) {
      return absl::FailedPreconditionError(
          absl::StrCat("two processes are rank ", rank, " of ", point.size));
    }
    if (exchange) {
      brought[rank].resize(bytes);
      if (!Transfer(peer.fd(), /*send=*/false, brought[rank].data(), bytes,
                    patience)) {
        continue;
      }
    }
    ranks[rank] = std::move(peer);
    --missing;
  }
  std::string answer = brought[0];
  if (exchange) {
    answer.clear();
    for (const std::string& bytes : brought) {
      answer += NetworkLength(bytes.size()) + bytes;
    }
  }
  std::string sent = exchange ? NetworkLength(answer.size()) + answer : answer;
  for (int r = 1; r < point.size; ++r) {
    if (!Transfer(ranks[static_cast<size_t>(r)].fd(), /*send=*/true,
                  sent.data(), sent.size(), end)) {
      return absl::UnavailableError(
          absl::StrCat("rank ", r, " of ", point.size, " went away"));
    }
  }
  return answer;
}

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// Those of the meeting point, for sockets of a type.
absl::StatusOr<Addresses> LookUp(const MeetingPoint& point, int socket_type) {
  addrinfo hints = {};
  hints.ai_socktype = socket_type;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(
      point.address.c_str(), absl::StrCat(point.port).c_str(), &hints, &found);
  if (error == 0) return Addresses(found, &::freeaddrinfo);
  return absl::UnavailableError(
      absl::StrCat("address \"", point.address, "\": ", ::gai_strerror(error)));
}

// One attempt.
absl::StatusOr<Socket> Connect(const MeetingPoint& point, absl::Time end) {
  SK_ASSIGN_OR_RETURN(const Addresses found, LookUp(point, SOCK_STREAM));
  std::string last = "no address";
  Socket connected;
  for (const addrinfo* a = found.get(); a != nullptr; a = a->ai_next) {
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
  if (connected.open()) return connected;
  return absl::UnavailableError(last);
}

// The part of the other ranks; returns the answer.
absl::StatusOr<std::string> Ask(const MeetingPoint& point,
                                absl::Duration deadline, Purpose purpose,
                                absl::string_view own) {
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
    const int fd = socket->fd();
    Hello hello = {htonl(static_cast<uint32_t>(purpose)),
                   htonl(static_cast<uint32_t>(point.rank)),
                   htonl(static_cast<uint32_t>(point.size)),
                   htonl(static_cast<uint32_t>(own.size()))};
    std::string bytes(own);
    bool done = Transfer(fd, /*send=*/true, &hello, sizeof(hello), end);
    if (purpose == Purpose::kExchange) {
      uint32_t length = 0;
      done = done &&
             Transfer(fd, /*send=*/true, bytes.data(), bytes.size(), end) &&
             Transfer(fd, /*send=*/false, &length, sizeof(length), end);
      bytes.resize(done ? ntohl(length) : 0);
    }
    if (done && Transfer(fd, /*send=*/false, bytes.data(), bytes.size(), end)) {
      return bytes;
    }
    return absl::UnavailableError(absl::StrCat(
        where, " ended the connection: another rank is missing or wrong"));
  }
}

absl::StatusOr<std::string> Meet(const MeetingPoint& point,
                                 absl::Duration deadline, Purpose purpose,
                                 absl::string_view own) {
  return point.rank == 0 ? Serve(point, deadline, purpose, own)
                         : Ask(point, deadline, purpose, own);
}

absl::StatusOr<std::string> Variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value != nullptr && *value != '\0') return std::string(value);
  return absl::NotFoundError(absl::StrCat(
      name,
      ": not set; want RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and "
      "MASTER_PORT, as a launcher sets them"));
}

// A file of the exchange, whole or not there.
std::string ExchangeFile(const std::string& directory, absl::string_view name,
                         int rank) {
  return absl::StrCat(directory, "/", name, ".", rank);
}

}  // namespace

absl::StatusOr<int> NumberFromEnvironment(const char* name, int low, int high) {
  SK_ASSIGN_OR_RETURN(const std::string text, Variable(name));
  int value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < low || value > high) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": got \"", text, "\", want ", low, "..", high));
  }
  return value;
}

absl::StatusOr<MeetingPoint> MeetingPointFromEnvironment() {
  MeetingPoint point;
  SK_ASSIGN_OR_RETURN(point.size,
                      NumberFromEnvironment("WORLD_SIZE", 1, 1 << 20));
  SK_ASSIGN_OR_RETURN(point.rank,
                      NumberFromEnvironment("RANK", 0, point.size - 1));
  SK_ASSIGN_OR_RETURN(point.address, Variable("MASTER_ADDR"));
  SK_ASSIGN_OR_RETURN(point.port,
                      NumberFromEnvironment("MASTER_PORT", 1, 65535));
  return point;
}

absl::Status ShareFromRank0(const MeetingPoint& point, absl::Duration deadline,
                            std::string* bytes) {
  SK_ASSIGN_OR_RETURN(*bytes, Meet(point, deadline, Purpose::kShare, *bytes));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ExchangeThroughRank0(
    const MeetingPoint& point, absl::Duration deadline,
    absl::string_view bytes) {
  SK_ASSIGN_OR_RETURN(const std::string answer,
                      Meet(point, deadline, Purpose::kExchange, bytes));
  std::vector<std::string> all;
  size_t at = 0;
  while (answer.size() - at >= sizeof(uint32_t)) {
    uint32_t length = 0;
    std::memcpy(&length, answer.data() + at, sizeof(length));
    all.push_back(answer.substr(at + sizeof(length), ntohl(length)));
    at = std::min(answer.size(), at + sizeof(length) + ntohl(length));
  }
  if (all.size() == static_cast<size_t>(point.size)) return all;
  return absl::InternalError(absl::StrCat("rank 0 answered with the bytes of ",
                                          all.size(), " of ", point.size,
                                          " ranks"));
}

absl::StatusOr<std::vector<std::string>> ExchangeThroughFiles(
    const std::string& directory, absl::string_view name, int rank, int size,
    absl::Duration deadline, absl::string_view bytes) {
  const absl::Time end = absl::Now() + deadline;
  const std::string path = ExchangeFile(directory, name, rank);
  const std::string draft = absl::StrCat(path, ".", ::getpid(), ".tmp");
  std::ofstream file(draft, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  // Not a rename, which would replace the file of another job.
  const bool written = file.good() && ::link(draft.c_str(), path.c_str()) == 0;
  const int error = errno;
  (void)::unlink(draft.c_str());
  if (!written) {
    if (error == EEXIST) {
      return absl::AlreadyExistsError(absl::StrCat(
          path, ": is there already; want a directory of this job alone"));
    }
    return absl::UnavailableError(
        absl::StrCat(path, ": cannot be written: ", std::strerror(error)));
  }
  std::vector<std::string> all(static_cast<size_t>(size));
  std::vector<int> absent;
  for (int r = 0; r < size; ++r) absent.push_back(r);
  while (true) {
    std::vector<int> still;
    for (const int r : absent) {
      absl::StatusOr<std::string> read =
          ReadFile(ExchangeFile(directory, name, r));
      if (absl::IsNotFound(read.status())) {
        still.push_back(r);
      } else {
        SK_ASSIGN_OR_RETURN(all[static_cast<size_t>(r)], std::move(read));
      }
    }
    absent = std::move(still);
    if (absent.empty()) return all;
    if (absl::Now() >= end) {
      return absl::DeadlineExceededError(absl::StrCat(
          absent.size() == 1 ? "rank " : "ranks ", absl::StrJoin(absent, ", "),
          " of ", size, " did not write to ", directory, " within ",
          absl::FormatDuration(deadline)));
    }
    absl::SleepFor(absl::Milliseconds(10));
  }
}

absl::StatusOr<std::string> LocalAddressTowards(const MeetingPoint& point) {
  // Connecting such a socket sends nothing.
  SK_ASSIGN_OR_RETURN(const Addresses found, LookUp(point, SOCK_DGRAM));
  std::string local;
  for (const addrinfo* a = found.get(); a != nullptr && local.empty();
       a = a->ai_next) {
    const Socket socket(
        ::socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, a->ai_protocol));
    sockaddr_storage name = {};
    socklen_t length = sizeof(name);
    char digits[NI_MAXHOST] = {};
    if (socket.open() &&
        ::connect(socket.fd(), a->ai_addr, a->ai_addrlen) == 0 &&
        ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&name),
                      &length) == 0 &&
        ::getnameinfo(reinterpret_cast<sockaddr*>(&name), length, digits,
                      sizeof(digits), nullptr, 0, NI_NUMERICHOST) == 0) {
      local = digits;
    }
  }
  if (!local.empty()) return local;
  return absl::UnavailableError(absl::StrCat(
      "no address of this machine from which ", point.address, " is reached"));
}

}  // namespace scalekeeper
