#include "trace/binary_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "proto/trace.pb.h"
#include "trace/binary_format.h"

namespace scalekeeper {

struct BinaryTraceWriter::Rep {
  proto::TraceRecord record;
  std::string payload;
  std::string frame;
};

BinaryTraceWriter::BinaryTraceWriter(OutputFile file, TraceHeader header)
    : file_(std::move(file)),
      header_(std::move(header)),
      rep_(std::make_unique<Rep>()) {}

BinaryTraceWriter::~BinaryTraceWriter() = default;

absl::StatusOr<std::unique_ptr<BinaryTraceWriter>> BinaryTraceWriter::Create(
    const std::string& path, const TraceHeader& header, OutputFile::Mode mode) {
  SK_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path, mode));
  std::unique_ptr<BinaryTraceWriter> writer(
      new BinaryTraceWriter(std::move(file), header));
  SK_RETURN_IF_ERROR(writer->file_.Append(internal::kTraceMagic));
  proto::TraceHeaderRecord* record = writer->rep_->record.mutable_header();
  record->set_format_version(internal::kTraceFormatVersion);
  if (header.rank >= 0) record->set_rank(header.rank);
  if (header.ranks >= 0) record->set_ranks(header.ranks);
  if (!header.recipe_fingerprint.empty()) {
    record->set_recipe_fingerprint(header.recipe_fingerprint);
  }
  for (const TraceColumn& column : header.columns) {
    proto::TraceSlotRecord* slot = record->add_slot();
    slot->set_module(column.module);
    slot->set_role(static_cast<proto::TraceSlotRecord::Role>(
        static_cast<int>(column.role) + 1));
    if (!IsLayerColumn(column)) {
      absl::string_view name = column.name;
      if (!absl::ConsumePrefix(&name, absl::StrCat(column.module, "/"))) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, ": got slot \"", column.name, "\", want \"",
                         column.module, "/<name>\""));
      }
      slot->set_name(std::string(name));
    }
  }
  SK_RETURN_IF_ERROR(writer->Append());
  SK_RETURN_IF_ERROR(writer->Flush());
  return writer;
}

absl::Status BinaryTraceWriter::Append() {
  rep_->payload.clear();
  if (!rep_->record.AppendToString(&rep_->payload) ||
      rep_->payload.size() > internal::kMaxRecord) {
    return absl::ResourceExhaustedError(
        absl::StrCat(file_.path(), ": a record of more than 64 MiB"));
  }
  rep_->frame.clear();
  internal::AppendUint32(static_cast<uint32_t>(rep_->payload.size()),
                         &rep_->frame);
  internal::AppendUint32(internal::FrameChecksum(rep_->frame, rep_->payload),
                         &rep_->frame);
  SK_RETURN_IF_ERROR(file_.Append(rep_->frame));
  return file_.Append(rep_->payload);
}

absl::Status BinaryTraceWriter::Write(const TraceStep& step) {
  SK_RETURN_IF_ERROR(CheckTraceStep(header_, step));
  for (const ColumnHistogram& entry : step.histograms) {
    proto::TraceHistogramRecord* record = rep_->record.mutable_histogram();
    record->Clear();
    record->set_step(step.step);
    record->set_slot(static_cast<int64_t>(entry.column));
    record->set_first_exponent(entry.histogram.first_exponent);
    record->mutable_count()->Assign(entry.histogram.counts.begin(),
                                    entry.histogram.counts.end());
    SK_RETURN_IF_ERROR(Append());
  }
  proto::TraceStepRecord* record = rep_->record.mutable_step();
  record->Clear();
  record->set_step(step.step);
  if (step.loss) record->set_loss(*step.loss);
  record->mutable_amax()->Assign(step.amax_bits.begin(), step.amax_bits.end());
  SK_RETURN_IF_ERROR(Append());
  ++steps_;
  return absl::OkStatus();
}

absl::Status BinaryTraceWriter::Close() {
  rep_->record.mutable_end()->set_steps(steps_);
  SK_RETURN_IF_ERROR(Append());
  return file_.Close();
}

}  // namespace scalekeeper
