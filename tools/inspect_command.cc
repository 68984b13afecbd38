// `scalekeeper inspect`: a state as a table or JSON; two states compared.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "amax/checkpoint.h"
#include "base/json.h"
#include "base/text.h"
#include "numerics/amax.h"
#include "numerics/bits.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/flag_set.h"
#include "tools/inspect.h"
#include "tools/load_recipe.h"

namespace scalekeeper {
namespace {

struct Row {
  const SlotImage* slot;
  std::vector<std::string> suspicions;
};

// The suspicious ones first; else as they lie.
std::vector<Row> Rows(const StateImage& image) {
  std::vector<Row> rows;
  for (const SlotImage& slot : image.slots) {
    rows.push_back({&slot, Suspicions(slot, image.updates)});
  }
  std::stable_partition(rows.begin(), rows.end(),
                        [](const Row& row) { return !row.suspicions.empty(); });
  return rows;
}

uint32_t Largest(const DelayedImage& delayed) {
  uint32_t largest = 0;
  for (uint32_t bits : delayed.window) largest = MaxBits(largest, bits);
  return largest;
}

void PrintJson(const StateImage& image, std::ostream& out) {
  out << "{\"step\": " << image.step << ", \"updates\": " << image.updates
      << ", \"collectives\": " << image.collectives
      << ", \"skipped\": " << image.skipped
      << ", \"numerics_version\": " << image.numerics_version
      << ", \"recipe_fingerprint\": " << JsonString(image.recipe_fingerprint)
      << ", \"recipe\": " << JsonString(image.recipe) << ", \"slots\": [";
  const char* separator = "\n";
  for (const Row& row : Rows(image)) {
    const SlotImage& slot = *row.slot;
    std::vector<std::string> suspicions;
    for (const std::string& s : row.suspicions) {
      suspicions.push_back(JsonString(s));
    }
    out << separator << "  {\"slot\": " << JsonString(slot.name)
        << ", \"role\": " << JsonString(Name(slot.role))
        << ", \"identity\": " << JsonString(slot.identity)
        << ", \"group\": " << JsonString(slot.group)
        << ", \"observed_amax\": " << JsonNumber(FloatFromBits(slot.amax_bits))
        << ", \"non_finite_steps\": " << slot.non_finite_steps
        << ", \"suspicions\": [" << absl::StrJoin(suspicions, ", ") << "]";
    if (slot.delayed.has_value()) {
      const DelayedImage& delayed = *slot.delayed;
      std::vector<std::string> window;
      for (uint32_t bits : delayed.window) {
        window.push_back(JsonNumber(FloatFromBits(bits)));
      }
      out << ", \"scale\": " << JsonNumber(FloatFromBits(delayed.scale_bits))
          << ", \"in_use\": " << (delayed.in_use ? "true" : "false")
          << ", \"measured\": " << (delayed.measure ? "true" : "false")
          << ", \"options\": "
          << (delayed.options.has_value()
                  ? JsonString(Describe(*delayed.options))
                  : std::string("null"))
          << ", \"window\": [" << absl::StrJoin(window, ", ") << "]";
    }
    out << "}";
    separator = ",\n";
  }
  out << "\n]}\n";
}

void PrintTable(const StateImage& image, std::ostream& out) {
  std::vector<std::vector<std::string>> lines = {{"slot", "scale", "window",
                                                  "max", "newest", "observed",
                                                  "options", "suspicions"}};
  size_t suspicious = 0;
  for (const Row& row : Rows(image)) {
    const SlotImage& slot = *row.slot;
    suspicious += row.suspicions.empty() ? 0 : 1;
    std::vector<std::string> line = {slot.name, "-", "-", "-", "-"};
    std::string options = "no scale";
    if (slot.delayed.has_value()) {
      const DelayedImage& delayed = *slot.delayed;
      line[1] = delayed.measure
                    ? std::string("measured")
                    : ShortestNumber(FloatFromBits(delayed.scale_bits));
      line[2] = absl::StrCat(delayed.window.size());
      if (!delayed.window.empty()) {
        line[3] = ShortestNumber(FloatFromBits(Largest(delayed)));
        line[4] = ShortestNumber(FloatFromBits(delayed.window.back()));
      }
      options = delayed.options.has_value() ? Describe(*delayed.options)
                                            : std::string("not known");
      if (!delayed.in_use) absl::StrAppend(&options, " (resting)");
    }
    line.push_back(slot.amax_bits == 0
                       ? std::string("-")
                       : ShortestNumber(FloatFromBits(slot.amax_bits)));
    line.push_back(std::move(options));
    line.push_back(absl::StrJoin(row.suspicions, "; "));
    lines.push_back(std::move(line));
  }
  out << "step " << image.step << ", " << image.updates << " updates ("
      << image.skipped << " skipped), " << image.slots.size() << " slots, "
      << suspicious << " suspicious, recipe "
      << (image.recipe_fingerprint.empty() ? "not known"
                                           : image.recipe_fingerprint)
      << "\n";
  std::vector<size_t> widths(lines[0].size());
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      widths[i] = std::max(widths[i], line[i].size());
    }
  }
  for (const auto& line : lines) {
    std::string text;
    for (size_t i = 0; i < line.size(); ++i) {
      absl::StrAppend(&text, line[i],
                      std::string(widths[i] - line[i].size() + 2, ' '));
    }
    out << text.substr(0, text.find_last_not_of(' ') + 1) << "\n";
  }
}

int PrintDifferences(const StateImage& a, const StateImage& b, bool json,
                     std::ostream& out) {
  const std::vector<SlotDifference> differences = DiffStates(a, b);
  std::vector<std::string> lines;
  for (const SlotDifference& d : differences) {
    lines.push_back(
        json ? absl::StrCat("  {\"slot\": ", JsonString(d.slot),
                            ", \"difference\": ", JsonString(d.what), "}")
             : absl::StrCat(d.slot.empty() ? "state" : d.slot, ": ", d.what,
                            "\n"));
  }
  if (json) {
    out << "{\"differences\": [\n" << absl::StrJoin(lines, ",\n") << "\n]}\n";
  } else {
    out << absl::StrJoin(lines, "");
  }
  return differences.empty() ? kExitOk : kExitFindings;
}

}  // namespace

int RunInspect(absl::Span<const std::string> args, std::ostream& out,
               std::ostream& err) {
  FlagSet flags(
      "inspect", "STATE [OTHER]",
      "Shows what is in a saved state, suspicious slots on top; or how two\n"
      "states differ, slot by slot, as SLOT: FIELD: VALUE -> VALUE.\n"
      "Suspicious: an inf or NaN amax; one in the window; a scale of FLT_MAX\n"
      "or 2^-126; nothing observed; a scale that is off its window by more\n"
      "than 2; a newest amax of more than 16 times all before it.\n"
      "Exit code: 0 shown or equal, 1 different, 2 trouble.");
  std::string output = "table";
  flags.Choice("output", &output, {"table", "json"}, "how to print it");
  std::vector<std::string> files;
  if (const auto exit_code = flags.Parse(args, files, out, err)) {
    return *exit_code;
  }
  if (files.empty() || files.size() > 2) {
    return flags.UsageError("want one STATE, or two to compare", err);
  }
  std::vector<StateImage> images;
  for (const std::string& file : files) {
    absl::StatusOr<StateImage> image = ReadStateFile(file);
    if (!image.ok()) {
      ReportStatus(image.status(), err);
      return kExitTrouble;
    }
    images.push_back(*std::move(image));
  }
  if (images.size() == 2) {
    return PrintDifferences(images[0], images[1], output == "json", out);
  }
  if (output == "json") {
    PrintJson(images[0], out);
  } else {
    PrintTable(images[0], out);
  }
  return kExitOk;
}

}  // namespace scalekeeper
