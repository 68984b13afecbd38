#include "tools/progress.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace scalekeeper {

Progress::Progress(std::string what, std::ostream& err)
    : what_(std::move(what)),
      err_(err),
      enabled_(&err == &std::cerr && isatty(STDERR_FILENO) != 0),
      next_(std::chrono::steady_clock::now() + std::chrono::seconds(1)) {}

Progress::~Progress() {
  if (drawn_) err_ << "\r\x1b[K" << std::flush;
}

void Progress::Update(int64_t done, int64_t total) {
  if (!enabled_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  drawn_ = true;
  err_ << "\r" << Bar(what_, done, total) << "\x1b[K" << std::flush;
}

std::string Progress::Bar(const std::string& what, int64_t done,
                          int64_t total) {
  if (total <= 0) return absl::StrCat(what, " ", done);
  constexpr int64_t kWidth = 30;
  const int64_t part = std::clamp<int64_t>(done, 0, total);
  const int64_t filled = part * kWidth / total;
  return absl::StrFormat("%s [%s%s] %3d%%", what,
                         std::string(static_cast<size_t>(filled), '#'),
                         std::string(static_cast<size_t>(kWidth - filled), '.'),
                         part * 100 / total);
}

}  // namespace scalekeeper
