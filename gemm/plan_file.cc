#include "gemm/plan_file.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace scalekeeper {
namespace {

constexpr absl::string_view kMagic = "scalekeeper matmul plans ";
constexpr int kFormatVersion = 2;

uint64_t Fnv1a(absl::string_view text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  }
  return hash;
}

absl::Status Damaged(size_t line, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("matmul plans, line ", line, ": ", what));
}

// The value of line number `line`, "<name> <value>".
absl::StatusOr<absl::string_view> Field(
    const std::vector<absl::string_view>& lines, size_t line,
    absl::string_view name) {
  absl::string_view text = lines.size() < line ? "" : lines[line - 1];
  if (!absl::ConsumePrefix(&text, name)) {
    return Damaged(line, absl::StrCat("want '", name, "...', got '",
                                      text.substr(0, 40), "'"));
  }
  return text;
}

absl::Status CheckMadeFor(absl::string_view what, absl::string_view got,
                          absl::string_view want) {
  if (got == want) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("matmul plans made for ", what, " '", got,
                   "', this device has '", want, "'"));
}

absl::StatusOr<PlanRecord> ParsePlan(absl::string_view text, size_t line) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(text, ' ', absl::SkipEmpty());
  PlanRecord record;
  MatmulPlanKey::Fields fields;
  if (words.size() != fields.size() + 1 + record.algorithm.size() ||
      words[fields.size()] != ":") {
    return Damaged(
        line,
        absl::StrCat("want ", fields.size(), " key fields, ':' and ",
                     record.algorithm.size(), " words, got '", text, "'"));
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    if (!absl::SimpleAtoi(words[i], &fields[i])) {
      return Damaged(line,
                     absl::StrCat("'", words[i], "' is not a whole number"));
    }
  }
  for (size_t i = 0; i < record.algorithm.size(); ++i) {
    const absl::string_view word = words[fields.size() + 1 + i];
    if (!absl::SimpleHexAtoi(word, &record.algorithm[i])) {
      return Damaged(line, absl::StrCat("'", word, "' is not hexadecimal"));
    }
  }
  record.key = MatmulPlanKey::FromFields(fields);
  return record;
}

absl::Status FileError(absl::string_view what, const std::string& path) {
  const std::string message =
      absl::StrCat(what, " '", path, "': ", std::strerror(errno));
  return errno == ENOENT ? absl::NotFoundError(message)
                         : absl::UnavailableError(message);
}

}  // namespace

std::string PrintPlans(const ChipIdentity& chip,
                       std::vector<PlanRecord> records) {
  std::sort(records.begin(), records.end(),
            [](const PlanRecord& a, const PlanRecord& b) {
              return a.key.ToFields() < b.key.ToFields();
            });
  std::string text = absl::StrCat(kMagic, kFormatVersion, "\nchip ", chip.name,
                                  "\nmultiprocessors ", chip.multiprocessors,
                                  "\ncublaslt ", chip.cublaslt_version, "\n");
  for (const PlanRecord& record : records) {
    absl::StrAppend(&text, "plan ", absl::StrJoin(record.key.ToFields(), " "),
                    " :");
    for (uint64_t word : record.algorithm) {
      absl::StrAppend(&text, " ", absl::Hex(word));
    }
    absl::StrAppend(&text, "\n");
  }
  absl::StrAppend(&text, "end ", records.size(), " ", absl::Hex(Fnv1a(text)),
                  "\n");
  return text;
}

absl::StatusOr<std::vector<PlanRecord>> ParsePlans(absl::string_view text,
                                                   const ChipIdentity& chip) {
  const std::vector<absl::string_view> lines =
      absl::StrSplit(absl::StripSuffix(text, "\n"), '\n');
  SK_ASSIGN_OR_RETURN(absl::string_view version, Field(lines, 1, kMagic));
  SK_RETURN_IF_ERROR(
      CheckMadeFor("format version", version, absl::StrCat(kFormatVersion)));
  // A damaged file is reported as such, not as one for another chip.
  const size_t last = lines.size();
  SK_ASSIGN_OR_RETURN(absl::string_view end, Field(lines, last, "end "));
  const absl::string_view body =
      text.substr(0, static_cast<size_t>(lines.back().data() - text.data()));
  const size_t kHeaderLines = 4;
  const std::string want_end =
      absl::StrCat(last < kHeaderLines + 1 ? 0 : last - kHeaderLines - 1, " ",
                   absl::Hex(Fnv1a(body)));
  if (end != want_end) {
    return Damaged(last, absl::StrCat("want 'end ", want_end,
                                      "' (count and checksum of the lines "
                                      "before), got 'end ",
                                      end, "'"));
  }
  SK_ASSIGN_OR_RETURN(absl::string_view name, Field(lines, 2, "chip "));
  SK_ASSIGN_OR_RETURN(absl::string_view multiprocessors,
                      Field(lines, 3, "multiprocessors "));
  SK_ASSIGN_OR_RETURN(absl::string_view cublaslt, Field(lines, 4, "cublaslt "));
  SK_RETURN_IF_ERROR(CheckMadeFor("chip", name, chip.name));
  SK_RETURN_IF_ERROR(CheckMadeFor("multiprocessor count", multiprocessors,
                                  absl::StrCat(chip.multiprocessors)));
  SK_RETURN_IF_ERROR(CheckMadeFor("cuBLASLt version", cublaslt,
                                  absl::StrCat(chip.cublaslt_version)));
  std::vector<PlanRecord> records;
  for (size_t line = kHeaderLines + 1; line < last; ++line) {
    SK_ASSIGN_OR_RETURN(absl::string_view plan, Field(lines, line, "plan "));
    SK_ASSIGN_OR_RETURN(PlanRecord record, ParsePlan(plan, line));
    records.push_back(record);
  }
  return records;
}

absl::Status WritePlanFile(const std::string& path, absl::string_view text) {
  static auto* const saves = new std::atomic<int>(0);
  const std::string temporary =
      absl::StrCat(path, ".", getpid(), ".", saves->fetch_add(1), ".tmp");
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    out.flush();
    if (!out) {
      const absl::Status status = FileError("cannot write", temporary);
      (void)std::remove(temporary.c_str());
      return status;
    }
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    const absl::Status status = FileError("cannot write", path);
    (void)std::remove(temporary.c_str());
    return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadPlanFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return FileError("cannot read", path);
  std::stringstream content;
  content << in.rdbuf();
  if (in.bad()) return FileError("cannot read", path);
  return content.str();
}

}  // namespace scalekeeper
