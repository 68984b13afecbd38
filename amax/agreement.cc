#include "amax/agreement.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "amax/update.h"
#include "base/status_macros.h"

namespace scalekeeper {
namespace {

constexpr size_t kMaxNames = 10;

// `text` of rank `root`, on every rank: a maximum with zeros.
absl::StatusOr<std::string> Broadcast(Communicator* communicator, Stream stream,
                                      int root, absl::string_view text) {
  const bool sender = communicator->rank() == root;
  uint32_t size = sender ? static_cast<uint32_t>(text.size()) : 0;
  SK_RETURN_IF_ERROR(
      communicator->AllReduceMax(absl::MakeSpan(&size, 1), stream));
  std::vector<uint32_t> words((size_t{size} + 3) / 4);
  if (sender && size != 0) std::memcpy(words.data(), text.data(), size);
  SK_RETURN_IF_ERROR(communicator->AllReduceMax(absl::MakeSpan(words), stream));
  std::string received(size, '\0');
  if (size != 0) std::memcpy(received.data(), words.data(), size);
  return received;
}

// The lowest rank for which `holds` is true, or -1; the same on every rank.
absl::StatusOr<int> LowestRank(Communicator* communicator, Stream stream,
                               bool holds) {
  const int size = communicator->size();
  uint32_t word =
      holds ? static_cast<uint32_t>(size - communicator->rank()) : 0;
  SK_RETURN_IF_ERROR(
      communicator->AllReduceMax(absl::MakeSpan(&word, 1), stream));
  return word == 0 ? -1 : size - static_cast<int>(word);
}

absl::Status ShareError(Communicator* communicator, Stream stream,
                        const absl::Status& local) {
  SK_ASSIGN_OR_RETURN(const int root,
                      LowestRank(communicator, stream, !local.ok()));
  const std::string mine =
      absl::StrCat(static_cast<int>(local.code()), "\t", local.message());
  SK_ASSIGN_OR_RETURN(const std::string text,
                      Broadcast(communicator, stream, root, mine));
  if (!local.ok()) return local;
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(text, absl::MaxSplits('\t', 1));
  int code = 0;
  if (!absl::SimpleAtoi(parts.first, &code)) {
    code = static_cast<int>(absl::StatusCode::kInternal);
  }
  return absl::Status(static_cast<absl::StatusCode>(code),
                      absl::StrCat("rank ", root, ": ", parts.second));
}

std::string Serialize(const AgreementTable& table) {
  std::string text =
      absl::StrCat(table.recipe_fingerprint, "\n", table.slots.size(), "\n");
  for (const AgreementTable::Slot& slot : table.slots) {
    absl::StrAppend(&text, slot.name, "\t", slot.description, "\n");
  }
  absl::StrAppend(&text, table.recipe);
  return text;
}

AgreementTable Parse(absl::string_view text) {
  const auto take_line = [&text] {
    const size_t end = std::min(text.find('\n'), text.size());
    const absl::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
  };
  AgreementTable table;
  table.recipe_fingerprint = std::string(take_line());
  size_t slots = 0;
  if (!absl::SimpleAtoi(take_line(), &slots)) slots = 0;
  for (size_t i = 0; i < slots && !text.empty(); ++i) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(take_line(), absl::MaxSplits('\t', 1));
    table.slots.push_back({parts.first, parts.second});
  }
  table.recipe = std::string(text);
  return table;
}

std::string ListNames(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kMaxNames);
  std::string list = absl::StrCat(
      "\"",
      absl::StrJoin(names.begin(),
                    names.begin() + static_cast<std::ptrdiff_t>(shown),
                    "\", \""),
      "\"");
  if (shown < names.size()) {
    absl::StrAppend(&list, " and ", names.size() - shown, " more");
  }
  return list;
}

// Lines of `a` that `b` has fewer times.
std::vector<std::string> LinesMissing(absl::string_view a,
                                      absl::string_view b) {
  std::map<std::string, int> held;
  for (absl::string_view line : absl::StrSplit(b, '\n')) {
    ++held[std::string(line)];
  }
  std::vector<std::string> missing;
  for (absl::string_view line : absl::StrSplit(a, '\n')) {
    if (--held[std::string(line)] < 0) {
      missing.emplace_back(absl::StripAsciiWhitespace(line));
    }
  }
  return missing;
}

}  // namespace

uint64_t HashBytes(uint64_t hash, absl::string_view bytes) {
  hash = MixBits(hash + bytes.size());
  while (!bytes.empty()) {
    uint64_t word = 0;
    const size_t size = std::min(bytes.size(), sizeof(word));
    std::memcpy(&word, bytes.data(), size);
    hash = MixBits(hash ^ word);
    bytes.remove_prefix(size);
  }
  return hash;
}

std::string DescribeDifference(const AgreementTable& reference,
                               const AgreementTable& own, int rank) {
  absl::flat_hash_map<absl::string_view, const AgreementTable::Slot*> by_name;
  for (const AgreementTable::Slot& slot : own.slots) by_name[slot.name] = &slot;
  std::vector<std::string> lacking, other;
  std::vector<std::string> differences;
  for (const AgreementTable::Slot& slot : reference.slots) {
    const auto it = by_name.find(slot.name);
    if (it == by_name.end()) {
      lacking.push_back(slot.name);
      continue;
    }
    if (it->second->description != slot.description &&
        differences.size() < kMaxNames) {
      differences.push_back(absl::StrCat(
          "\"", slot.name, "\" is {", slot.description, "} on rank 0, {",
          it->second->description, "} on rank ", rank));
    }
    by_name.erase(it);
  }
  for (const AgreementTable::Slot& slot : own.slots) {
    if (by_name.contains(slot.name)) other.push_back(slot.name);
  }
  std::vector<std::string> parts;
  if (!lacking.empty()) {
    parts.push_back(absl::StrCat("rank ", rank, " lacks ", ListNames(lacking)));
  }
  if (!other.empty()) {
    parts.push_back(
        absl::StrCat("rank 0 lacks ", ListNames(other), " of rank ", rank));
  }
  parts.insert(parts.end(), differences.begin(), differences.end());
  if (reference.recipe_fingerprint != own.recipe_fingerprint) {
    const auto only_0 = LinesMissing(reference.recipe, own.recipe);
    const auto only_own = LinesMissing(own.recipe, reference.recipe);
    parts.push_back(absl::StrCat(
        "the recipes differ (fingerprint ", reference.recipe_fingerprint,
        " on rank 0, ", own.recipe_fingerprint, " on rank ", rank, ")"));
    if (!only_0.empty()) {
      parts.push_back(
          absl::StrCat("recipe lines only on rank 0: ", ListNames(only_0)));
    }
    if (!only_own.empty()) {
      parts.push_back(absl::StrCat("recipe lines only on rank ", rank, ": ",
                                   ListNames(only_own)));
    }
  }
  return absl::StrJoin(parts, "; ");
}

absl::Status AgreeOnTable(Communicator* communicator, Stream stream,
                          const absl::Status& local, uint64_t fingerprint,
                          const std::function<AgreementTable()>& table) {
  const uint32_t low = static_cast<uint32_t>(fingerprint);
  const uint32_t high = static_cast<uint32_t>(fingerprint >> 32);
  uint32_t words[] = {local.ok() ? 0u : 1u, low, high, ~low, ~high};
  SK_RETURN_IF_ERROR(communicator->AllReduceMax(absl::MakeSpan(words), stream));
  if (words[0] != 0) return ShareError(communicator, stream, local);
  if (words[1] == ~words[3] && words[2] == ~words[4]) return absl::OkStatus();

  const AgreementTable own = table();
  SK_ASSIGN_OR_RETURN(
      const std::string reference,
      Broadcast(communicator, stream, /*root=*/0,
                communicator->rank() == 0 ? Serialize(own) : ""));
  const std::string difference =
      DescribeDifference(Parse(reference), own, communicator->rank());
  SK_ASSIGN_OR_RETURN(const int root,
                      LowestRank(communicator, stream, !difference.empty()));
  if (root < 0) {
    return absl::InternalError(
        "fingerprints of the ranks differ, but no table does");
  }
  SK_ASSIGN_OR_RETURN(const std::string text,
                      Broadcast(communicator, stream, root, difference));
  return absl::FailedPreconditionError(
      absl::StrCat("the ranks do not have the same recipe and slots: ", text));
}

}  // namespace scalekeeper
