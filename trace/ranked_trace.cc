#include "trace/ranked_trace.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace scalekeeper {
namespace {

absl::Status SameColumns(const TraceHeader& got, const std::string& got_path,
                         const TraceHeader& want,
                         const std::string& want_path) {
  const auto name = [](const TraceHeader& header, size_t i) {
    return i < header.columns.size() ? header.columns[i].name : "nothing";
  };
  const size_t count = std::max(got.columns.size(), want.columns.size());
  for (size_t i = 0; i < count; ++i) {
    if (name(got, i) == name(want, i)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(got_path, ":1: error: quantizer ", i + 1, ": got ",
                     Quoted(name(got, i)), ", want ", Quoted(name(want, i)),
                     " as in ", want_path));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RankedTrace> RankedTrace::Open(
    const std::vector<std::string>& paths,
    const std::vector<std::string>& histograms) {
  if (!histograms.empty() && histograms.size() != paths.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("got ", histograms.size(), " files of histograms, want ",
                     paths.size(), ", one per trace"));
  }
  std::vector<std::unique_ptr<TraceReader>> readers;
  for (size_t rank = 0; rank < paths.size(); ++rank) {
    SK_ASSIGN_OR_RETURN(
        std::unique_ptr<TraceReader> reader,
        OpenTrace(paths[rank],
                  histograms.empty() ? std::string() : histograms[rank]));
    if (rank > 0) {
      SK_RETURN_IF_ERROR(SameColumns(reader->header(), paths[rank],
                                     readers[0]->header(), paths[0]));
    }
    readers.push_back(std::move(reader));
  }
  return RankedTrace(std::move(readers), paths);
}

int64_t RankedTrace::bytes_read() const {
  int64_t sum = 0;
  for (const auto& reader : readers_) sum += reader->bytes_read();
  return sum;
}

absl::StatusOr<bool> RankedTrace::Next(std::vector<TraceStep>* steps) {
  steps->resize(readers_.size());
  std::vector<bool> more(readers_.size());
  bool all = true;
  for (size_t rank = 0; rank < readers_.size(); ++rank) {
    SK_ASSIGN_OR_RETURN(const bool got, readers_[rank]->Next(&(*steps)[rank]));
    more[rank] = got;
    all = all && got;
  }
  if (!all) {
    SK_RETURN_IF_ERROR(Finish(*steps, more));
    return false;
  }
  for (size_t rank = 1; rank < readers_.size(); ++rank) {
    if ((*steps)[rank].step == (*steps)[0].step) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        readers_[rank]->position(), ": error: got step ", (*steps)[rank].step,
        ", want step ", (*steps)[0].step, " as in ", paths_[0]));
  }
  ++steps_;
  return true;
}

absl::Status RankedTrace::Finish(const std::vector<TraceStep>& steps,
                                 const std::vector<bool>& more) {
  size_t shortest = 0;
  for (size_t rank = 0; rank < readers_.size(); ++rank) {
    if (more[rank]) continue;
    shortest = rank;
    const TraceEnd end = readers_[rank]->end();
    if (end.kind == TraceEnd::Kind::kTorn) {
      warnings_.push_back(absl::StrCat(
          paths_[rank], ": warning: torn at byte ", end.torn_offset, ", ",
          end.torn_bytes, " bytes from there on are no whole record; used: ",
          steps_, " steps before it"));
    } else if (end.kind == TraceEnd::Kind::kUnfinished) {
      warnings_.push_back(absl::StrCat(paths_[rank],
                                       ": warning: no end record, the run "
                                       "crashed or goes on; used: ",
                                       steps_, " steps"));
    }
  }
  if (steps_ == 0 && warnings_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(paths_[shortest], ": error: no step in the trace"));
  }
  if (steps_ == 0) {
    return absl::DataLossError(
        absl::StrCat(warnings_[0], "; want at least one step"));
  }
  // Of complete traces the one that ends first contradicts the others.
  for (size_t rank = 0; rank < readers_.size(); ++rank) {
    if (more[rank]) continue;
    if (readers_[rank]->end().kind != TraceEnd::Kind::kComplete) continue;
    for (size_t other = 0; other < readers_.size(); ++other) {
      if (!more[other]) continue;
      const bool first_longer = other < rank;
      const size_t at = first_longer ? rank : other;
      return absl::InvalidArgumentError(
          absl::StrCat(readers_[at]->position(), ": error: got ",
                       first_longer ? std::string("nothing")
                                    : absl::StrCat("step ", steps[other].step),
                       ", want ",
                       first_longer ? absl::StrCat("step ", steps[other].step)
                                    : std::string("nothing"),
                       " as in ", paths_[first_longer ? other : rank]));
    }
  }
  return absl::OkStatus();
}

}  // namespace scalekeeper
