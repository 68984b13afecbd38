#include "amax/checkpoint.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/file_stream.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "proto/state.pb.h"

namespace scalekeeper {
namespace {

constexpr absl::string_view kMagic("SKSTATE", 8);  // with its zero byte
constexpr size_t kVersionAt = 8, kLengthAt = 12, kChecksumAt = 20;
constexpr size_t kHeaderBytes = 24;

void PutLittleEndian(uint64_t value, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) {
    out->push_back(static_cast<char>(value >> (8 * i)));
  }
}

uint64_t GetLittleEndian(absl::string_view bytes, size_t at, size_t count) {
  uint64_t value = 0;
  for (size_t i = count; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  }
  return value;
}

// The checksum field itself is not covered.
uint32_t Checksum(absl::string_view bytes) {
  return ExtendCrc32c(Crc32c(bytes.substr(0, kChecksumAt)),
                      bytes.substr(kHeaderBytes));
}

// ------------------------------------------------------------------ encoding

// The message's enumerations have the order of recipe/policy.h's.
template <typename Out, typename In>
Out EnumCast(In value) {
  return static_cast<Out>(static_cast<int>(value));
}
static_assert(static_cast<int>(Role::kGrad) == proto::Slot::GRAD);
static_assert(static_cast<int>(Format::kE5M2) == proto::Delayed::E5M2);
static_assert(static_cast<int>(Format::kE2M1) == proto::Delayed::E2M1);
static_assert(static_cast<int>(AmaxComputeAlgo::kMostRecent) ==
              proto::Delayed::MOST_RECENT);
static_assert(static_cast<int>(NonFiniteAmax::kFreeze) ==
              proto::Delayed::FREEZE);
static_assert(static_cast<int>(NonFiniteAmax::kBackOff) ==
              proto::Delayed::BACK_OFF);

void DelayedToProto(const DelayedImage& delayed, proto::Delayed* out) {
  out->set_in_use(delayed.in_use);
  if (delayed.options.has_value()) {
    const ScaleOptions& options = *delayed.options;
    out->set_format(EnumCast<proto::Delayed::Format>(options.format));
    out->set_algorithm(EnumCast<proto::Delayed::Algorithm>(options.algo));
    out->set_non_finite(
        EnumCast<proto::Delayed::NonFinite>(options.non_finite));
    out->set_margin(static_cast<uint32_t>(options.margin));
    out->set_history_len(options.history_len);
  }
  out->set_scale(delayed.scale_bits);
  out->set_measure(delayed.measure);
  out->set_count(static_cast<uint32_t>(delayed.window.size()));
  out->mutable_window()->Add(delayed.window.begin(), delayed.window.end());
  out->mutable_window()->Resize(static_cast<int>(delayed.capacity), 0);
}

void ToProto(const StateImage& image, proto::State* out) {
  out->set_numerics_version(image.numerics_version);
  if (!image.recipe.empty()) {
    out->set_recipe(image.recipe);
    out->set_recipe_fingerprint(image.recipe_fingerprint);
  }
  out->set_step(image.step);
  out->set_updates(image.updates);
  out->set_collectives(image.collectives);
  out->set_skipped(image.skipped);
  out->set_held(image.held);
  out->set_held_skip(image.held_skip);
  out->set_kept_skip(image.kept_skip);
  for (const std::string& group : image.groups) out->add_group(group);
  for (const SlotImage& slot : image.slots) {
    proto::Slot* const s = out->add_slot();
    s->set_name(slot.name);
    s->set_role(EnumCast<proto::Slot::Role>(slot.role));
    if (!slot.identity.empty()) s->set_identity(slot.identity);
    s->set_group(static_cast<uint32_t>(
        std::find(image.groups.begin(), image.groups.end(), slot.group) -
        image.groups.begin()));
    s->set_amax(slot.amax_bits);
    s->set_held_amax(slot.held_bits);
    s->set_non_finite_steps(slot.non_finite_steps);
    if (slot.delayed.has_value()) {
      DelayedToProto(*slot.delayed, s->mutable_delayed());
    }
  }
}

// ------------------------------------------------------------------ decoding

absl::Status Corrupt(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("not a whole state: ", what));
}

absl::StatusOr<DelayedImage> DelayedFromProto(const proto::Delayed& in) {
  DelayedImage delayed;
  if (!in.has_in_use() || !in.has_scale() || !in.has_measure() ||
      !in.has_count() || in.count() > static_cast<uint32_t>(in.window_size())) {
    return Corrupt("a field is missing or does not fit the others");
  }
  delayed.in_use = in.in_use();
  delayed.scale_bits = in.scale();
  delayed.measure = in.measure();
  delayed.capacity = static_cast<uint32_t>(in.window_size());
  delayed.window.assign(in.window().begin(),
                        in.window().begin() + static_cast<int>(in.count()));
  const int known = in.has_format() + in.has_algorithm() + in.has_non_finite() +
                    in.has_margin() + in.has_history_len();
  if (known == 0) return delayed;
  if (known != 5) return Corrupt("an option is missing or unknown");
  ScaleOptions options;
  options.format = EnumCast<Format>(in.format());
  options.algo = EnumCast<AmaxComputeAlgo>(in.algorithm());
  options.non_finite = EnumCast<NonFiniteAmax>(in.non_finite());
  // One that does not fit an int is out of range below as well.
  options.margin = static_cast<int>(std::min<uint32_t>(in.margin(), INT32_MAX));
  options.history_len = in.history_len();
  delayed.options = options;
  return delayed;
}

absl::StatusOr<StateImage> FromProto(const proto::State& in) {
  StateImage image;
  image.numerics_version = in.numerics_version();
  image.recipe = in.recipe();
  image.recipe_fingerprint = in.recipe_fingerprint();
  image.step = in.step();
  image.updates = in.updates();
  image.collectives = in.collectives();
  image.skipped = in.skipped();
  image.held = in.held();
  image.held_skip = in.held_skip();
  image.kept_skip = in.kept_skip();
  image.groups.assign(in.group().begin(), in.group().end());
  image.slots.reserve(static_cast<size_t>(in.slot_size()));
  for (const proto::Slot& s : in.slot()) {
    SlotImage slot;
    slot.name = s.name();
    if (!s.has_role()) {
      return Corrupt(absl::StrCat("role of slot ", Quoted(slot.name)));
    }
    slot.role = EnumCast<Role>(s.role());
    slot.identity = s.identity();
    if (s.group() < image.groups.size()) slot.group = image.groups[s.group()];
    slot.amax_bits = s.amax();
    slot.held_bits = s.held_amax();
    slot.non_finite_steps = s.non_finite_steps();
    if (s.has_delayed()) {
      absl::StatusOr<DelayedImage> delayed = DelayedFromProto(s.delayed());
      if (!delayed.ok()) {
        return absl::Status(delayed.status().code(),
                            absl::StrCat("slot ", Quoted(slot.name), ": ",
                                         delayed.status().message()));
      }
      slot.delayed = *std::move(delayed);
    }
    image.slots.push_back(std::move(slot));
  }
  if (absl::Status status = ValidateImage(image); !status.ok()) {
    return Corrupt(status.message());
  }
  return image;
}

}  // namespace

absl::StatusOr<std::string> EncodeState(const StateImage& image) {
  SK_RETURN_IF_ERROR(ValidateImage(image));
  proto::State state;
  ToProto(image, &state);
  const size_t bytes = state.ByteSizeLong();
  if (bytes > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a state of ", image.slots.size(), " slots takes ", bytes,
                     " bytes, want less than 2 GiB: save the slots of this "
                     "rank alone, or shorten amax_history_len"));
  }
  std::string out(kMagic);
  out.reserve(kHeaderBytes + bytes);
  PutLittleEndian(kStateSchemaVersion, 4, &out);
  PutLittleEndian(bytes, 8, &out);
  PutLittleEndian(0, 4, &out);  // the checksum's place
  state.AppendToString(&out);
  std::string checksum;
  PutLittleEndian(Checksum(out), 4, &checksum);
  out.replace(kChecksumAt, 4, checksum);
  return out;
}

absl::StatusOr<StateImage> DecodeState(absl::string_view bytes) {
  const size_t compared = std::min(bytes.size(), kMagic.size());
  if (bytes.substr(0, compared) != kMagic.substr(0, compared)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "not a scalekeeper state: begins with ",
        Quoted(bytes.substr(0, compared)), ", want ", Quoted(kMagic)));
  }
  if (bytes.size() < kHeaderBytes) {
    return Corrupt(absl::StrCat("got ", bytes.size(), " bytes, want at least ",
                                kHeaderBytes));
  }
  const uint64_t version = GetLittleEndian(bytes, kVersionAt, 4);
  if (version == 0 || version > kStateSchemaVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "schema version: got ", version, ", want 1..", kStateSchemaVersion,
        version == 0 ? "" : ": written by a newer program"));
  }
  const uint64_t length = GetLittleEndian(bytes, kLengthAt, 8);
  if (length != bytes.size() - kHeaderBytes) {
    return Corrupt(
        absl::StrCat(length > bytes.size() - kHeaderBytes ? "cut off: " : "",
                     "got ", bytes.size() - kHeaderBytes,
                     " bytes behind the header, which says ", length));
  }
  const uint32_t checksum =
      static_cast<uint32_t>(GetLittleEndian(bytes, kChecksumAt, 4));
  if (checksum != Checksum(bytes)) {
    return Corrupt(absl::StrCat("checksum: got 0x", absl::Hex(Checksum(bytes)),
                                ", want 0x", absl::Hex(checksum)));
  }
  proto::State state;
  const absl::string_view body = bytes.substr(kHeaderBytes);
  if (body.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !state.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
    return Corrupt("the message cannot be parsed");
  }
  return FromProto(state);
}

absl::Status WriteStateFile(const std::string& path, const StateImage& image) {
  SK_ASSIGN_OR_RETURN(const std::string bytes, EncodeState(image));
  return WriteFileDurably(path, bytes);
}

absl::StatusOr<StateImage> ReadStateFile(const std::string& path) {
  SK_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  std::string bytes;
  SK_RETURN_IF_ERROR(file.Read(kHeaderBytes, &bytes));
  // No more than a state has that begins like this, and one byte: a pipe or a
  // device may go on for ever.
  if (bytes.size() == kHeaderBytes && absl::StartsWith(bytes, kMagic)) {
    constexpr size_t kPiece = size_t{1} << 20;
    const uint64_t wanted =
        kHeaderBytes + 1 +
        std::min<uint64_t>(GetLittleEndian(bytes, kLengthAt, 8),
                           std::numeric_limits<int32_t>::max());
    while (bytes.size() < wanted) {
      const size_t before = bytes.size();
      const size_t piece = std::min<size_t>(kPiece, wanted - before);
      SK_RETURN_IF_ERROR(file.Read(piece, &bytes));
      if (bytes.size() - before < piece) break;
    }
  }
  absl::StatusOr<StateImage> image = DecodeState(bytes);
  if (image.ok()) return image;
  return absl::Status(image.status().code(),
                      absl::StrCat(path, ": ", image.status().message()));
}

}  // namespace scalekeeper
