#include "recipe/pattern_set.h"

#include <algorithm>

namespace scalekeeper {
namespace {

re2::StringPiece Piece(absl::string_view text) {
  return {text.data(), text.size()};
}

}  // namespace

PatternSet::PatternSet(const std::vector<std::string>& patterns) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  for (const std::string& pattern : patterns) {
    patterns_.push_back(std::make_unique<re2::RE2>(pattern, options));
  }
  // The automaton of all patterns together is built lazily; with little memory
  // it would be thrown away and built again and again.
  options.set_max_mem(int64_t{64} << 20);
  set_ = std::make_unique<re2::RE2::Set>(options, re2::RE2::ANCHOR_BOTH);
  for (const std::string& pattern : patterns) set_->Add(pattern, nullptr);
  if (patterns.empty() || !set_->Compile()) set_.reset();
}

void PatternSet::Match(absl::string_view name,
                       std::vector<int>& matches) const {
  matches.clear();
  if (set_ != nullptr) {
    re2::RE2::Set::ErrorInfo error;
    if (set_->Match(Piece(name), &matches, &error)) {
      std::sort(matches.begin(), matches.end());
      return;
    }
    if (error.kind == re2::RE2::Set::kNoError) return;
    matches.clear();
  }
  for (size_t i = 0; i < patterns_.size(); ++i) {
    if (re2::RE2::FullMatch(Piece(name), *patterns_[i])) {
      matches.push_back(static_cast<int>(i));
    }
  }
}

bool PatternSet::CaptureNumber(int pattern, absl::string_view name,
                               int64_t& number) const {
  return re2::RE2::FullMatch(
             Piece(name), *patterns_[static_cast<size_t>(pattern)], &number) &&
         number >= 0;
}

}  // namespace scalekeeper
