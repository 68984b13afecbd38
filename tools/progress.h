// A progress bar on standard error, for what takes more than a second: on a
// terminal only, and gone when the work is done.
#ifndef SCALEKEEPER_TOOLS_PROGRESS_H_
#define SCALEKEEPER_TOOLS_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>

namespace scalekeeper {

class Progress {
 public:
  // Silent unless `err` is the process's own standard error and a terminal.
  Progress(std::string what, std::ostream& err);
  ~Progress();

  // `total` <= 0: not known.
  void Update(int64_t done, int64_t total);

  // "simulating [#####.....]  50%", or with the count where there is no total.
  static std::string Bar(const std::string& what, int64_t done, int64_t total);

 private:
  const std::string what_;
  std::ostream& err_;
  const bool enabled_;
  std::chrono::steady_clock::time_point next_;
  bool drawn_ = false;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TOOLS_PROGRESS_H_
