#include "tools/tensor_job.h"

#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "re2/re2.h"

namespace scalekeeper {
namespace {

// Elements of a tensor that fit in memory and whose bytes fit in size_t.
constexpr int64_t kMaxElements = int64_t{1} << 40;

size_t ByteCount(const TensorJob& job) {
  return static_cast<size_t>(job.rows) * static_cast<size_t>(job.cols) *
         SizeOf(job.dtype);
}

}  // namespace

absl::Status ParseShape(absl::string_view what, absl::string_view text,
                        int64_t* rows, int64_t* cols) {
  const std::vector<absl::string_view> extents = absl::StrSplit(text, 'x');
  if (extents.size() != 2 || !absl::SimpleAtoi(extents[0], rows) ||
      !absl::SimpleAtoi(extents[1], cols) || *rows < 0 || *cols < 0 ||
      (*cols > 0 && *rows > kMaxElements / *cols)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": got ", Quoted(text),
                     ", want ROWSxCOLS, as 512x1024, at most 2^40 elements"));
  }
  return absl::OkStatus();
}

absl::Status CheckModuleName(absl::string_view what, absl::string_view module) {
  bool printable = !module.empty();
  for (const char c : module) {
    printable = printable && static_cast<unsigned char>(c) >= 0x20 && c != 0x7F;
  }
  if (printable && FirstInvalidUtf8(module) == module.size()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": got ", Quoted(module),
                   ", want a name, as layers.0.fc1: not empty, UTF-8, without "
                   "control characters"));
}

absl::Status CheckStep(int64_t step) {
  if (step >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--step: got ", step, ", want >= 0"));
}

Role RoleOfName(absl::string_view name) {
  for (const Role role : kRoles) {
    if (name == Name(role)) return role;
  }
  return Role::kInput;
}

DType DTypeOfName(absl::string_view name) {
  return name == "bf16"   ? DType::kBF16
         : name == "fp16" ? DType::kF16
                          : DType::kF32;
}

std::optional<TensorJob> TensorJobOfFileName(absl::string_view path) {
  static const RE2* const pattern = new RE2(
      "(?:.*/)?([^/]+)\\.(input|weight|grad)\\.(\\d+x\\d+)\\.(bf16|fp16|fp32)");
  TensorJob job;
  std::string role, shape, dtype;
  if (!RE2::FullMatch(re2::StringPiece(path.data(), path.size()), *pattern,
                      &job.module, &role, &shape, &dtype) ||
      !CheckModuleName("", job.module).ok() ||
      !ParseShape("", shape, &job.rows, &job.cols).ok()) {
    return std::nullopt;
  }
  job.role = RoleOfName(role);
  job.dtype = DTypeOfName(dtype);
  return job;
}

absl::StatusOr<std::string> ReadTensorFile(const TensorJob& job,
                                           const std::string& path) {
  constexpr size_t kTooMany = size_t{1} << 20;
  return ReadFile(path, ByteCount(job) + kTooMany);
}

absl::StatusOr<Buffer> TensorValues(const TensorJob& job,
                                    absl::string_view values,
                                    absl::string_view source) {
  const size_t element = SizeOf(job.dtype);
  const size_t want = ByteCount(job);
  if (values.size() != want) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": got ", values.size(), " bytes, want ", want,
                     " for ", job.rows, "x", job.cols, " of ", Name(job.dtype),
                     " (", element, " bytes each)"));
  }
  SK_ASSIGN_OR_RETURN(Buffer copy,
                      Buffer::Allocate(HostAllocator(), values.size()));
  if (!values.empty()) std::memcpy(copy.data(), values.data(), values.size());
  return copy;
}

}  // namespace scalekeeper
