// EventDetector: finds the steps at which a run jumped.
//
// A column jumps at a step when its amax (the largest of the ranks) is more
// than 16 times above or below the median of its last 16 ones, or is infinite
// or NaN. The loss jumps when it is more than twice the median of its last 16,
// or not finite. A step belongs to an event when at least 5% of the columns
// jump (one at least), or the loss. Nothing is judged before 8 steps were seen.
//
// An event begins with the step before the first such step, whose update did
// it, and ends with the last one; steps at most 2 apart are of one event.
//
// Steps are judged as they come: a step's verdict needs no later one.
//
// Example:
//   EventDetector detector(columns);
//   if (detector.Step(step, loss, amaxes)) ...   // an event starts here
//   detector.Finish();
//   for (const TraceEvent& event : detector.events()) ...
#ifndef SCALEKEEPER_REPLAY_EVENT_DETECTOR_H_
#define SCALEKEEPER_REPLAY_EVENT_DETECTOR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace scalekeeper {

struct TraceEvent {
  int64_t first_step = 0;
  int64_t last_step = 0;
  size_t first_row = 0;
  size_t last_row = 0;
  // At most so many columns jumped at one step.
  size_t columns = 0;
  // The column that jumped farthest: log2(amax / median of those before); 0
  // when none did, infinite for a non-finite amax.
  size_t worst_column = 0;
  double worst_log2 = 0;
  // When the loss jumped: the median before, and the largest.
  bool loss_jumped = false;
  double loss_before = 0;
  double loss_peak = 0;
};

// "steps 600-612", or "step 7".
std::string Name(const TraceEvent& event);

class EventDetector {
 public:
  // Events beyond these are counted, not kept.
  static constexpr size_t kMaxEvents = 64;

  explicit EventDetector(size_t columns);

  // One row: `amaxes` has a word per column, 0 where not observed. True when an
  // event starts with this row.
  bool Step(int64_t step, const std::optional<double>& loss,
            const uint32_t* amaxes);
  void Finish();

  // In order; after Finish.
  const std::vector<TraceEvent>& events() const { return events_; }
  int64_t dropped() const { return dropped_; }

 private:
  static constexpr size_t kWindow = 16;

  double LossMedian() const;
  double MedianLog2(size_t column) const;

  const size_t columns_;
  std::vector<uint32_t> windows_;  // [column][kWindow]
  // Bounds of each window: where an amax is within a factor of 16 of both, it
  // is of every value in it.
  std::vector<uint32_t> least_;
  std::vector<uint32_t> largest_;
  std::vector<uint32_t> counts_;  // per column, pushed so far
  std::vector<double> losses_;    // the last kWindow
  size_t rows_ = 0;
  int64_t previous_step_ = 0;
  std::optional<TraceEvent> open_;
  std::vector<TraceEvent> events_;
  int64_t dropped_ = 0;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_REPLAY_EVENT_DETECTOR_H_
