#include "trace/binary_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/trace.pb.h"
#include "trace/binary_format.h"

namespace scalekeeper {
namespace {

constexpr size_t kBlock = size_t{1} << 18;

}  // namespace

struct BinaryTraceReader::Rep {
  proto::TraceRecord record;
};

BinaryTraceReader::BinaryTraceReader(InputFile file, std::string head)
    : file_(std::move(file)),
      buffer_(std::move(head)),
      rep_(std::make_unique<Rep>()) {}

BinaryTraceReader::~BinaryTraceReader() = default;

absl::StatusOr<std::unique_ptr<BinaryTraceReader>> BinaryTraceReader::Create(
    InputFile file, std::string head) {
  std::unique_ptr<BinaryTraceReader> reader(
      new BinaryTraceReader(std::move(file), std::move(head)));
  SK_RETURN_IF_ERROR(reader->ReadHeader());
  return reader;
}

std::string BinaryTraceReader::position() const {
  return absl::StrCat(file_.path(), ": byte ", offset_);
}

absl::Status BinaryTraceReader::Contradiction(absl::string_view what) const {
  return absl::DataLossError(
      absl::StrCat(file_.path(), ": before byte ", offset_, ": ", what));
}

absl::Status BinaryTraceReader::Fill(size_t count) {
  if (buffer_.size() - begin_ >= count || at_file_end_) return absl::OkStatus();
  buffer_.erase(0, begin_);
  begin_ = 0;
  const size_t before = buffer_.size();
  const size_t want = (count > kBlock ? count : kBlock) - before;
  SK_RETURN_IF_ERROR(file_.Read(want, &buffer_));
  at_file_end_ = buffer_.size() - before < want;
  return absl::OkStatus();
}

absl::StatusOr<bool> BinaryTraceReader::ReadRecord() {
  SK_RETURN_IF_ERROR(Fill(internal::kFrameBytes));
  const size_t left = buffer_.size() - begin_;
  if (left == 0) {
    end_.kind = TraceEnd::Kind::kUnfinished;
    return false;
  }
  if (left >= internal::kFrameBytes) {
    const uint32_t length =
        internal::ReadUint32(absl::string_view(buffer_).substr(begin_));
    if (length <= internal::kMaxRecord) {
      const size_t bytes = internal::kFrameBytes + length;
      SK_RETURN_IF_ERROR(Fill(bytes));
      if (buffer_.size() - begin_ >= bytes) {
        const absl::string_view frame =
            absl::string_view(buffer_).substr(begin_, bytes);
        const absl::string_view payload = frame.substr(internal::kFrameBytes);
        if (internal::FrameChecksum(frame.substr(0, 4), payload) ==
                internal::ReadUint32(frame.substr(4)) &&
            rep_->record.ParseFromArray(payload.data(),
                                        static_cast<int>(payload.size()))) {
          begin_ += bytes;
          offset_ += static_cast<int64_t>(bytes);
          return true;
        }
      }
    }
  }
  end_.kind = TraceEnd::Kind::kTorn;
  end_.torn_offset = offset_;
  end_.torn_bytes = static_cast<int64_t>(buffer_.size() - begin_);
  std::string rest;
  while (!at_file_end_) {
    rest.clear();
    SK_RETURN_IF_ERROR(file_.Read(kBlock, &rest));
    end_.torn_bytes += static_cast<int64_t>(rest.size());
    at_file_end_ = rest.size() < kBlock;
  }
  return false;
}

absl::Status BinaryTraceReader::ReadHeader() {
  SK_RETURN_IF_ERROR(Fill(internal::kTraceMagic.size()));
  begin_ = internal::kTraceMagic.size();
  offset_ = static_cast<int64_t>(begin_);
  SK_ASSIGN_OR_RETURN(const bool any, ReadRecord());
  if (!any || !rep_->record.has_header()) {
    return absl::DataLossError(absl::StrCat(
        file_.path(), ": byte ", internal::kTraceMagic.size(),
        ": no whole header record; nothing of this trace can be used"));
  }
  const proto::TraceHeaderRecord& record = rep_->record.header();
  if (record.format_version() != internal::kTraceFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        file_.path(), ": format_version: got ", record.format_version(),
        ", want ", internal::kTraceFormatVersion,
        "; written by another version of this program"));
  }
  if (record.slot().empty()) return Contradiction("a header without slots");
  header_.rank = record.has_rank() ? record.rank() : -1;
  header_.ranks = record.has_ranks() ? record.ranks() : -1;
  header_.recipe_fingerprint = record.recipe_fingerprint();
  for (const proto::TraceSlotRecord& slot : record.slot()) {
    if (!slot.has_role() || slot.module().empty()) {
      return Contradiction("a slot without module or role");
    }
    TraceColumn column = LayerColumn(
        slot.module(), kRoles[static_cast<size_t>(slot.role()) - 1]);
    if (slot.has_name()) {
      column.name = absl::StrCat(column.module, "/", slot.name());
    }
    header_.columns.push_back(std::move(column));
  }
  header_.has_loss = true;  // each step says whether it knows it
  return absl::OkStatus();
}

absl::StatusOr<bool> BinaryTraceReader::Next(TraceStep* step) {
  if (ended_) return false;
  step->histograms.clear();
  for (;;) {
    SK_ASSIGN_OR_RETURN(const bool more, ReadRecord());
    if (!more) {
      ended_ = true;
      return false;
    }
    const proto::TraceRecord& record = rep_->record;
    switch (record.kind_case()) {
      case proto::TraceRecord::kHistogram: {
        const proto::TraceHistogramRecord& read = record.histogram();
        if (read.slot() < 0 ||
            static_cast<size_t>(read.slot()) >= header_.columns.size() ||
            read.count().empty() || read.first_exponent() < -4096 ||
            read.first_exponent() > 4096) {
          return Contradiction("a histogram without a slot or counts");
        }
        if (!step->histograms.empty() && step->step != read.step()) {
          return Contradiction("histograms of two steps before a step");
        }
        step->step = read.step();
        ColumnHistogram& entry = step->histograms.emplace_back();
        entry.column = static_cast<size_t>(read.slot());
        entry.histogram.first_exponent =
            static_cast<int>(read.first_exponent());
        entry.histogram.counts.assign(read.count().begin(), read.count().end());
        break;
      }
      case proto::TraceRecord::kStep: {
        const proto::TraceStepRecord& read = record.step();
        if (static_cast<size_t>(read.amax_size()) != header_.columns.size() ||
            read.step() < 0) {
          return Contradiction(absl::StrCat("step ", read.step(), " with ",
                                            read.amax_size(), " amaxes, want ",
                                            header_.columns.size()));
        }
        if (!step->histograms.empty() && step->step != read.step()) {
          return Contradiction("histograms of another step before a step");
        }
        step->step = read.step();
        step->loss.reset();
        if (read.has_loss()) step->loss = read.loss();
        step->amax_bits.assign(read.amax().begin(), read.amax().end());
        ++steps_;
        return true;
      }
      case proto::TraceRecord::kEnd:
        ended_ = true;
        if (record.end().steps() != steps_) {
          return Contradiction(absl::StrCat("the end says ",
                                            record.end().steps(),
                                            " steps, there are ", steps_));
        }
        return false;
      case proto::TraceRecord::kHeader:
        return Contradiction("a second header");
      case proto::TraceRecord::KIND_NOT_SET:
        break;  // a kind of record that this version does not know
    }
  }
}

}  // namespace scalekeeper
