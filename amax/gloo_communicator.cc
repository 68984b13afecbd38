#include "amax/gloo_communicator.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "amax/gloo_mesh.h"
#include "base/status_macros.h"

namespace scalekeeper {
namespace {

enum class Kind : uint32_t { kReduce, kGather };

// What a rank brings to a collective: this, then its bytes.
struct Header {
  uint64_t sequence;
  uint64_t bytes;
  Kind kind;
  uint32_t unused;

  std::string Describe() const {
    return kind == Kind::kGather ? absl::StrCat(bytes, " bytes to gather")
                                 : absl::StrCat(bytes / 4, " words");
  }
};

// The first message of a collective holds the header and as many bytes as fit;
// the rest follows in another one when all headers have agreed.
constexpr size_t kHeadSize = 4096;
constexpr size_t kInline = kHeadSize - sizeof(Header);
constexpr uint64_t kHeadSlot = 1, kRestSlot = 2, kNoteSlot = 1;

// Why a rank has given up.
struct Note {
  int32_t code;
  char text[508];
};

class GlooCommunicator : public Communicator {
 public:
  GlooCommunicator(std::string name, absl::Duration deadline, int rank,
                   int size)
      : name_(std::move(name)), deadline_(deadline), rank_(rank), size_(size) {}
  ~GlooCommunicator() override;

  using Exchange =
      std::function<absl::StatusOr<std::vector<std::string>>(std::string)>;
  absl::Status Connect(const std::string& address, absl::Time end,
                       const Exchange& exchange);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  absl::Status AllReduceMax(absl::Span<uint32_t> data, Stream) override;
  absl::Status AllGather(const void* send, void* receive, size_t bytes,
                         Stream) override;

 private:
  struct Peer {
    Peer(GlooMesh* data, GlooMesh* notes, int rank_in)
        : rank(rank_in),
          head(data, kHeadSize),
          heads_sent{{data, kHeadSize}, {data, kHeadSize}},
          rest(data, 0),
          rest_sent(data, 0),
          note(notes, sizeof(Note)),
          note_sent(notes, sizeof(Note)) {}

    const int rank;
    bool posted = false;  // the next head can be received
    bool came = false;    // to this collective
    GlooMesh::Block head;
    // By turns: when the peer's head of one collective has come, it has ended
    // the collective before and got what was sent in it.
    GlooMesh::Block heads_sent[2];
    GlooMesh::Block rest, rest_sent, note, note_sent;
    Header header = {};
  };

  // The peers' bytes are in their heads and rests until Collect has them.
  absl::Status Trade(Kind kind, const char* send, size_t bytes);
  absl::Status CheckHeaders() const;
  // Calls f(offset, peer's bytes there, count) for all pieces of them.
  template <typename F>
  void ForPieces(const Peer& peer, size_t bytes, const F& f) const {
    const size_t first = std::min(bytes, kInline);
    f(size_t{0}, peer.head.data() + sizeof(Header), first);
    if (bytes > first) f(first, peer.rest.data(), bytes - first);
  }
  void PostHeads();

  std::string Where() const {
    return absl::StrCat("gloo group \"", name_, "\", collective ",
                        own_.sequence, " of ", own_.Describe());
  }
  absl::Status Late();
  absl::Status Lost(Peer* peer, const absl::Status& why);
  absl::Status Told(Peer* peer, absl::Duration patience);
  absl::Status Break(absl::Status status);

  const std::string name_;
  const absl::Duration deadline_;
  const int rank_, size_;
  Header own_ = {};
  absl::Status broken_;
  // Before the blocks, which refer to them. The notes have a mesh of their own
  // because one wait that takes too long closes all connections of a mesh.
  std::unique_ptr<GlooMesh> data_, notes_;
  std::vector<std::unique_ptr<Peer>> peers_;
};

// What the others need to end the last collective goes out first.
GlooCommunicator::~GlooCommunicator() {
  if (!broken_.ok()) return;
  const absl::Time end = absl::Now() + absl::Seconds(5);
  for (const auto& peer : peers_) {
    for (GlooMesh::Block* block :
         {&peer->heads_sent[0], &peer->heads_sent[1], &peer->rest_sent}) {
      (void)block->WaitSent(end);
    }
  }
}

absl::Status GlooCommunicator::Connect(const std::string& address,
                                       absl::Time end,
                                       const Exchange& exchange) {
  if (size_ == 1) return exchange("").status();
  const SigpipeGuard guard;
  SK_ASSIGN_OR_RETURN(auto device, CreateGlooDevice(address));
  data_ = std::make_unique<GlooMesh>(device, rank_, size_);
  notes_ = std::make_unique<GlooMesh>(device, rank_, size_);
  SK_ASSIGN_OR_RETURN(const std::string to_data, data_->Listen(end));
  SK_ASSIGN_OR_RETURN(const std::string to_notes, notes_->Listen(end));
  // "<size of the first> <first><second>".
  SK_ASSIGN_OR_RETURN(
      std::vector<std::string> all,
      exchange(absl::StrCat(absl::Dec(to_data.size(), absl::kZeroPad8), to_data,
                            to_notes)));
  std::vector<std::string> notes;
  for (std::string& both : all) {
    size_t first = 0;
    if (both.size() < 8 ||
        !absl::SimpleAtoi(absl::string_view(both).substr(0, 8), &first) ||
        first > both.size() - 8) {
      return absl::InternalError("a rank sent no addresses");
    }
    notes.push_back(both.substr(8 + first));
    both = both.substr(8, first);
  }
  SK_RETURN_IF_ERROR(data_->Connect(all));
  SK_RETURN_IF_ERROR(notes_->Connect(notes));
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    peers_.push_back(std::make_unique<Peer>(data_.get(), notes_.get(), r));
    SK_RETURN_IF_ERROR(
        peers_.back()->note.PostReceive(r, kNoteSlot, sizeof(Note)));
  }
  PostHeads();
  return absl::OkStatus();
}

// A peer that has left after the last collective is told about in the next.
void GlooCommunicator::PostHeads() {
  for (const auto& peer : peers_) {
    peer->posted =
        peer->head.PostReceive(peer->rank, kHeadSlot, kHeadSize).ok();
  }
}

absl::Status GlooCommunicator::Trade(Kind kind, const char* send,
                                     size_t bytes) {
  if (!broken_.ok()) return broken_;
  own_.kind = kind;
  own_.bytes = bytes;
  const absl::Time end = absl::Now() + deadline_;
  const size_t first = std::min(bytes, kInline);
  for (const auto& peer : peers_) peer->came = false;
  for (const auto& peer : peers_) {
    if (!peer->posted) {
      return Lost(peer.get(),
                  absl::UnavailableError("it left after the last collective"));
    }
    GlooMesh::Block& block = peer->heads_sent[own_.sequence % 2];
    absl::Status sent = block.WaitSent(end);
    if (!sent.ok()) return Lost(peer.get(), sent);
    std::memcpy(block.data(), &own_, sizeof(own_));
    if (first != 0) std::memcpy(block.data() + sizeof(own_), send, first);
    sent = block.Send(peer->rank, kHeadSlot, sizeof(own_) + first);
    if (!sent.ok()) return Lost(peer.get(), sent);
  }
  for (const auto& peer : peers_) {
    absl::Status status = peer->head.WaitReceived(end);
    if (!status.ok()) {
      return absl::Now() >= end ? Late() : Lost(peer.get(), status);
    }
    peer->came = true;
    std::memcpy(&peer->header, peer->head.data(), sizeof(Header));
  }
  if (absl::Status status = CheckHeaders(); !status.ok()) {
    return Break(std::move(status));
  }
  const size_t rest = bytes - first;
  if (rest != 0) {
    for (const auto& peer : peers_) {
      absl::Status status = peer->rest_sent.WaitSent(end);
      if (!status.ok()) return Lost(peer.get(), status);
      peer->rest.Grow(rest);
      peer->rest_sent.Grow(rest);
      std::memcpy(peer->rest_sent.data(), send + first, rest);
      status = peer->rest.PostReceive(peer->rank, kRestSlot, rest);
      if (status.ok()) {
        status = peer->rest_sent.Send(peer->rank, kRestSlot, rest);
      }
      if (!status.ok()) return Lost(peer.get(), status);
    }
  }
  for (const auto& peer : peers_) {
    if (rest == 0) break;
    const absl::Status status = peer->rest.WaitReceived(end);
    if (!status.ok()) {
      return absl::Now() >= end ? Late() : Lost(peer.get(), status);
    }
  }
  return absl::OkStatus();
}

// Every rank sees all headers and so says the same.
absl::Status GlooCommunicator::CheckHeaders() const {
  std::vector<Header> headers(static_cast<size_t>(size_));
  headers[static_cast<size_t>(rank_)] = own_;
  for (const auto& peer : peers_) {
    headers[static_cast<size_t>(peer->rank)] = peer->header;
  }
  for (size_t r = 1; r < headers.size(); ++r) {
    if (headers[r].sequence != headers[0].sequence) {
      return absl::FailedPreconditionError(absl::StrCat(
          "gloo group \"", name_, "\": rank 0 is in collective ",
          headers[0].sequence, ", rank ", r, " in ", headers[r].sequence));
    }
    if (headers[r].bytes != headers[0].bytes ||
        headers[r].kind != headers[0].kind) {
      return absl::FailedPreconditionError(
          absl::StrCat("gloo group \"", name_, "\", collective ", own_.sequence,
                       ": rank 0 brings ", headers[0].Describe(), ", rank ", r,
                       " brings ", headers[r].Describe()));
    }
  }
  return absl::OkStatus();
}

absl::Status GlooCommunicator::Late() {
  std::vector<int> absent;
  for (const auto& peer : peers_) {
    // What has come is told though the connections are closed.
    if (!peer->came && !peer->head.WaitReceived(absl::Now()).ok()) {
      absent.push_back(peer->rank);
    }
  }
  (void)Break(absl::DeadlineExceededError(absl::StrCat(
      Where(), ": ",
      absent.empty() ? "some ranks"
                     : absl::StrCat(absent.size() == 1 ? "rank " : "ranks ",
                                    absl::StrJoin(absent, ", ")),
      " of ", size_, " did not come within ",
      absl::FormatDuration(deadline_))));
  // One that came may have given up before, unnoticed: the first error counts.
  for (const auto& peer : peers_) {
    if (!peer->came) continue;
    absl::Status told = Told(peer.get(), absl::ZeroDuration());
    if (!told.ok()) return broken_ = std::move(told);
  }
  return broken_;
}

// The connection with `peer` is closed: it has given up, and says why, or it is
// gone.
absl::Status GlooCommunicator::Lost(Peer* peer, const absl::Status& why) {
  absl::Status told = Told(peer, absl::Seconds(2));
  if (!told.ok()) return Break(std::move(told));
  return Break(absl::UnavailableError(absl::StrCat(
      Where(), ": rank ", peer->rank, " of ", size_,
      " is gone, its process ended or its communicator was destroyed: ",
      why.message())));
}

// Why `peer` has given up; OK: it has not said so.
absl::Status GlooCommunicator::Told(Peer* peer, absl::Duration patience) {
  if (!peer->note.WaitReceived(absl::Now() + patience).ok()) {
    return absl::OkStatus();
  }
  Note note;
  std::memcpy(&note, peer->note.data(), sizeof(note));
  note.text[sizeof(note.text) - 1] = '\0';
  return absl::Status(static_cast<absl::StatusCode>(note.code), note.text);
}

// Tells the others, whether they wait now or come later.
absl::Status GlooCommunicator::Break(absl::Status status) {
  broken_ = std::move(status);
  Note note = {};
  note.code = static_cast<int32_t>(broken_.raw_code());
  const size_t length =
      std::min(broken_.message().size(), sizeof(note.text) - 1);
  std::memcpy(note.text, broken_.message().data(), length);
  for (const auto& peer : peers_) {
    std::memcpy(peer->note_sent.data(), &note, sizeof(note));
    (void)peer->note_sent.Send(peer->rank, kNoteSlot, sizeof(note));
  }
  for (const auto& peer : peers_) {
    (void)peer->note_sent.WaitSent(absl::Now() + absl::Seconds(1));
  }
  data_->Close();
  return broken_;
}

absl::Status GlooCommunicator::AllReduceMax(absl::Span<uint32_t> data, Stream) {
  const SigpipeGuard guard;
  const size_t bytes = data.size() * sizeof(uint32_t);
  SK_RETURN_IF_ERROR(
      Trade(Kind::kReduce, reinterpret_cast<const char*>(data.data()), bytes));
  for (const auto& peer : peers_) {
    ForPieces(*peer, bytes, [&](size_t at, const char* piece, size_t count) {
      for (size_t i = 0; i < count; i += sizeof(uint32_t)) {
        uint32_t word = 0;
        std::memcpy(&word, piece + i, sizeof(word));
        uint32_t& own = data[(at + i) / sizeof(uint32_t)];
        own = std::max(own, word);
      }
    });
  }
  ++own_.sequence;
  PostHeads();
  return absl::OkStatus();
}

absl::Status GlooCommunicator::AllGather(const void* send, void* receive,
                                         size_t bytes, Stream) {
  if (bytes != 0 && (send == nullptr || receive == nullptr)) {
    return absl::InvalidArgumentError(
        "AllGather: got a null pointer, want memory of the host");
  }
  const SigpipeGuard guard;
  SK_RETURN_IF_ERROR(
      Trade(Kind::kGather, static_cast<const char*>(send), bytes));
  char* const all = static_cast<char*>(receive);
  if (bytes != 0) {
    std::memcpy(all + static_cast<size_t>(rank_) * bytes, send, bytes);
    for (const auto& peer : peers_) {
      char* const place = all + static_cast<size_t>(peer->rank) * bytes;
      ForPieces(*peer, bytes, [&](size_t at, const char* piece, size_t count) {
        std::memcpy(place + at, piece, count);
      });
    }
  }
  ++own_.sequence;
  PostHeads();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Communicator>> Create(
    int rank, int size, const std::string& address,
    const GlooCommunicatorOptions& options,
    const GlooCommunicator::Exchange& exchange) {
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
           c == '-' || c == '.';
  };
  if (options.name.empty() ||
      !std::all_of(options.name.begin(), options.name.end(), allowed)) {
    return absl::InvalidArgumentError(
        absl::StrCat("options.name: got \"", options.name,
                     "\", want letters, digits, '_', '-' and '.'"));
  }
  for (const auto& [field, value] :
       {std::make_pair("deadline", options.deadline),
        std::make_pair("meeting_deadline", options.meeting_deadline)}) {
    if (value > absl::ZeroDuration()) continue;
    return absl::InvalidArgumentError(absl::StrCat("options.", field, ": got ",
                                                   absl::FormatDuration(value),
                                                   ", want > 0"));
  }
  if (size < 1 || rank < 0 || rank >= size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank: got ", rank, " of ", size, ", want 0..size-1"));
  }
  auto made = std::make_unique<GlooCommunicator>(options.name, options.deadline,
                                                 rank, size);
  if (absl::Status status = made->Connect(
          address, absl::Now() + options.meeting_deadline, exchange);
      !status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat("gloo group \"", options.name, "\", rank ",
                                     rank, ": ", status.message()));
  }
  return made;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> CreateGlooCommunicator(
    const MeetingPoint& point, const GlooCommunicatorOptions& options) {
  std::string address = options.address;
  if (address.empty()) {
    SK_ASSIGN_OR_RETURN(address, LocalAddressTowards(point));
  }
  return Create(
      point.rank, point.size, address, options, [&](const std::string& bytes) {
        return ExchangeThroughRank0(point, options.meeting_deadline, bytes);
      });
}

absl::StatusOr<std::unique_ptr<Communicator>>
CreateGlooCommunicatorFromLauncher(const GlooCommunicatorOptions& options) {
  SK_ASSIGN_OR_RETURN(const MeetingPoint point, MeetingPointFromEnvironment());
  return CreateGlooCommunicator(point, options);
}

absl::StatusOr<std::unique_ptr<Communicator>> CreateGlooCommunicatorFromFiles(
    const std::string& directory, int rank, int size,
    const GlooCommunicatorOptions& options) {
  return Create(
      rank, size, options.address, options, [&](const std::string& bytes) {
        return ExchangeThroughFiles(directory, options.name, rank, size,
                                    options.meeting_deadline, bytes);
      });
}

}  // namespace scalekeeper
