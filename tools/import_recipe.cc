#include "tools/import_recipe.h"

#include <cstdint>
#include <map>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "recipe/recipe.h"

namespace scalekeeper {
namespace {

absl::Status BadValue(absl::string_view option, absl::string_view got,
                      absl::string_view want) {
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": got ", Quoted(got), ", want ", want));
}

// What either stack's options come to.
struct Plan {
  std::string name, description;
  std::string format = "hybrid";    // or e4m3
  std::string scaling = "delayed";  // delayed, tensorwise, blockwise, mxfp8,
                                    // nvfp4
  std::string delayed;              // fields of `delayed`
  bool reduce_amax = true;
  std::string group = "default";
  bool fprop_high_precision = false;
  bool dgrad_high_precision = false;
  bool wgrad_high_precision = false;
  std::string rules;
};

std::string Gemm(absl::string_view name, bool high_precision, bool fast) {
  return absl::StrCat(
      "  ", name, " { ",
      high_precision ? std::string("high_precision: true")
                     : absl::StrCat("fast_accum: ", fast ? "true" : "false"),
      " }\n");
}

std::string Defaults(const Plan& plan) {
  if (plan.scaling == "nvfp4") {
    return "  input  { nvfp4 { random_hadamard: true } }\n"
           "  weight { nvfp4 { two_dimensional: true } }\n"
           "  grad   { nvfp4 { random_hadamard: true stochastic_rounding: true "
           "} }\n";
  }
  const std::string grad = plan.format == "hybrid" ? "E5M2" : "E4M3";
  std::string input, weight;
  if (plan.scaling == "blockwise") {
    input = "block { block_shape: B1X128 power_2_scale: true }";
    weight = "block { block_shape: B128X128 power_2_scale: true }";
  } else if (plan.scaling == "mxfp8") {
    input = weight = "mxfp8 {}";
  } else if (plan.scaling == "tensorwise") {
    input = weight = "current {}";
  } else {
    input = weight = absl::StrCat("delayed { ", plan.delayed, " }");
  }
  return absl::StrCat("  input  { format: E4M3 ", input,
                      " }\n  weight { format: E4M3 ", weight,
                      " }\n  grad   { format: ", grad, " ", input, " }\n");
}

// The text, checked.
absl::StatusOr<ImportedRecipe> Write(const Plan& plan,
                                     std::vector<std::string> notes) {
  const bool fast = plan.scaling == "delayed" || plan.scaling == "tensorwise";
  std::string reduction;
  if (plan.scaling == "delayed") {
    reduction = plan.reduce_amax ? absl::StrCat("amax_reduction { group: \"",
                                                plan.group, "\" }\n\n")
                                 : "amax_reduction { enabled: false }\n\n";
  }
  ImportedRecipe recipe;
  recipe.text = absl::StrCat(
      "name: \"", plan.name, "\"\ndescription: \"", plan.description,
      "\"\n\ndefaults {\n", Defaults(plan), "}\n\n", plan.rules, reduction,
      "matmul {\n", Gemm("fprop", plan.fprop_high_precision, fast),
      Gemm("dgrad", plan.dgrad_high_precision, false),
      Gemm("wgrad", plan.wgrad_high_precision, false), "}\n");
  recipe.notes = std::move(notes);
  SK_RETURN_IF_ERROR(Recipe::Parse(recipe.text, "imported").status());
  return recipe;
}

absl::Status CheckInteger(absl::string_view option, absl::string_view value,
                          int64_t low, int64_t high) {
  int64_t number = 0;
  if (absl::SimpleAtoi(value, &number) && number >= low && number <= high) {
    return absl::OkStatus();
  }
  return BadValue(option, value, absl::StrCat(low, "..", high));
}

absl::Status CheckChoice(absl::string_view option, absl::string_view value,
                         const std::vector<std::string>& allowed) {
  for (const std::string& choice : allowed) {
    if (value == choice) return absl::OkStatus();
  }
  return BadValue(option, value,
                  absl::StrCat("one of: ", absl::StrJoin(allowed, ", ")));
}

// ------------------------------------------------------------------- Megatron

using Values = std::map<std::string, std::string>;  // flag -> value or ""

// The flags and whether they take a value.
const std::map<std::string, bool>& MegatronFlags() {
  static const auto* const flags = new std::map<std::string, bool>{
      {"--fp8-format", true},
      {"--fp8-recipe", true},
      {"--fp8-margin", true},
      {"--fp8-amax-history-len", true},
      {"--fp8-amax-compute-algo", true},
      {"--fp8-interval", true},
      {"--fp8-param-gather", false},
      {"--no-fp8-wgrad", false},
      {"--tp-only-amax-red", false},
      {"--fp4-format", true},
      {"--fp4-recipe", true},
      {"--first-last-layers-bf16", false},
      {"--num-layers-at-start-in-bf16", true},
      {"--num-layers-at-end-in-bf16", true},
      {"--transformer-impl", true},
  };
  return *flags;
}

absl::StatusOr<Values> ReadFlags(absl::Span<const std::string> args) {
  Values values;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(args[i], absl::MaxSplits('=', 1));
    const std::string& flag = parts.first;
    const auto known = MegatronFlags().find(flag);
    if (known == MegatronFlags().end()) {
      std::vector<std::string> names;
      for (const auto& [name, takes] : MegatronFlags()) names.push_back(name);
      return absl::InvalidArgumentError(
          absl::StrCat("unknown flag ", Quoted(flag), DidYouMean(flag, names)));
    }
    const bool joined = absl::StrContains(args[i], '=');
    if (!known->second && joined) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, ": got a value, want none"));
    }
    std::string value = parts.second;
    if (known->second && !joined) {
      if (i + 1 == args.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat(flag, ": got no value, want one"));
      }
      value = args[++i];
    }
    if (!values.emplace(flag, value).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, ": was given before, want it once"));
    }
  }
  return values;
}

std::string ValueOr(const Values& values, const std::string& flag,
                    absl::string_view otherwise) {
  const auto it = values.find(flag);
  return it == values.end() ? std::string(otherwise) : it->second;
}

absl::Status RefuseWithoutEffect(const Values& values,
                                 const std::vector<std::string>& flags,
                                 absl::string_view because) {
  for (const std::string& flag : flags) {
    if (values.count(flag) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, ": has no effect ", because));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadDelayed(const Values& values, Plan* plan) {
  const std::string margin = ValueOr(values, "--fp8-margin", "0");
  const std::string length = ValueOr(values, "--fp8-amax-history-len", "1");
  const std::string algo =
      ValueOr(values, "--fp8-amax-compute-algo", "most_recent");
  SK_RETURN_IF_ERROR(CheckInteger("--fp8-margin", margin, 0, 32));
  SK_RETURN_IF_ERROR(CheckInteger("--fp8-amax-history-len", length, 1, 65536));
  SK_RETURN_IF_ERROR(
      CheckChoice("--fp8-amax-compute-algo", algo, {"max", "most_recent"}));
  plan->delayed =
      absl::StrCat("margin: ", margin, " amax_history_len: ", length,
                   " amax_compute_algo: ", absl::AsciiStrToUpper(algo));
  if (values.count("--tp-only-amax-red") != 0) plan->group = "tensor_parallel";
  return absl::OkStatus();
}

absl::Status ReadLayers(const Values& values, absl::string_view layers,
                        Plan* plan) {
  const std::vector<std::string> counts = {"--num-layers-at-start-in-bf16",
                                           "--num-layers-at-end-in-bf16"};
  if (values.count("--first-last-layers-bf16") == 0) {
    return RefuseWithoutEffect(values, counts,
                               "without --first-last-layers-bf16");
  }
  const std::string first = ValueOr(values, counts[0], "1");
  const std::string last = ValueOr(values, counts[1], "1");
  SK_RETURN_IF_ERROR(CheckInteger(counts[0], first, 0, 100000));
  SK_RETURN_IF_ERROR(CheckInteger(counts[1], last, 0, 100000));
  if (first == "0" && last == "0") return absl::OkStatus();
  std::string pattern;
  for (char c : layers) {
    absl::StrAppend(&pattern, c == '\\' || c == '"' ? "\\" : "",
                    std::string(1, c));
  }
  plan->rules =
      absl::StrCat("rule {\n  layers { pattern: \"", pattern, "\"",
                   first == "0" ? "" : absl::StrCat(" first: ", first),
                   last == "0" ? "" : absl::StrCat(" last: ", last),
                   " }\n  all { high_precision {} }\n}\n\n");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ImportedRecipe> ImportMegatron(
    absl::Span<const std::string> flags, absl::string_view layers) {
  SK_ASSIGN_OR_RETURN(const Values values, ReadFlags(flags));
  Plan plan;
  plan.name = "imported_megatron";
  plan.description = "From Megatron's flags";
  std::vector<std::string> notes;
  const bool fp8 = values.count("--fp8-format") != 0;
  const bool fp4 = values.count("--fp4-format") != 0;
  if (fp8 == fp4) {
    return absl::InvalidArgumentError(
        fp8 ? "--fp4-format: beside --fp8-format; want one of them"
            : "want --fp8-format or --fp4-format: without one Megatron trains "
              "in high precision");
  }
  const std::vector<std::string> delayed_flags = {
      "--fp8-margin", "--fp8-amax-history-len", "--fp8-amax-compute-algo",
      "--tp-only-amax-red"};
  if (fp4) {
    SK_RETURN_IF_ERROR(
        CheckChoice("--fp4-format", values.at("--fp4-format"), {"e2m1"}));
    plan.scaling = ValueOr(values, "--fp4-recipe", "nvfp4");
    SK_RETURN_IF_ERROR(CheckChoice("--fp4-recipe", plan.scaling, {"nvfp4"}));
    SK_RETURN_IF_ERROR(
        RefuseWithoutEffect(values, {"--fp8-recipe"}, "beside --fp4-format"));
  } else {
    plan.format = values.at("--fp8-format");
    SK_RETURN_IF_ERROR(
        CheckChoice("--fp8-format", plan.format, {"e4m3", "hybrid"}));
    plan.scaling = ValueOr(values, "--fp8-recipe", "delayed");
    SK_RETURN_IF_ERROR(
        CheckChoice("--fp8-recipe", plan.scaling,
                    {"delayed", "tensorwise", "blockwise", "mxfp8"}));
    SK_RETURN_IF_ERROR(
        RefuseWithoutEffect(values, {"--fp4-recipe"}, "without --fp4-format"));
  }
  if (plan.scaling == "delayed") {
    SK_RETURN_IF_ERROR(ReadDelayed(values, &plan));
  } else {
    SK_RETURN_IF_ERROR(RefuseWithoutEffect(
        values, delayed_flags, absl::StrCat("with ", plan.scaling)));
  }
  plan.wgrad_high_precision = values.count("--no-fp8-wgrad") != 0;
  SK_RETURN_IF_ERROR(ReadLayers(values, layers, &plan));
  if (values.count("--fp8-param-gather") != 0) {
    notes.push_back(
        "--fp8-param-gather: how weights are stored and gathered is the "
        "program's");
  }
  if (values.count("--fp8-interval") != 0) {
    notes.push_back("--fp8-interval: Megatron ignores it");
  }
  if (values.count("--tp-only-amax-red") != 0) {
    notes.push_back(
        "--tp-only-amax-red: bind the tensor-parallel communicator to group "
        "\"tensor_parallel\"");
  }
  return Write(plan, std::move(notes));
}

// --------------------------------------------------------- TransformerEngine

namespace {

// "name=value" pieces; commas inside parentheses separate nothing.
std::vector<std::string> SplitOptions(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (absl::ConsumePrefix(&text, "DelayedScaling(")) {
    absl::ConsumeSuffix(&text, ")");
  }
  std::vector<std::string> pieces(1);
  int depth = 0;
  for (char c : text) {
    depth += (c == '(') - (c == ')');
    if (depth == 0 && (c == ',' || c == ' ')) {
      pieces.emplace_back();
    } else if (c != ' ') {
      pieces.back().push_back(c);
    }
  }
  std::vector<std::string> kept;
  for (std::string& piece : pieces) {
    if (!piece.empty()) kept.push_back(std::move(piece));
  }
  return kept;
}

absl::StatusOr<bool> ReadBool(absl::string_view option,
                              absl::string_view value) {
  const std::string lower = absl::AsciiStrToLower(value);
  SK_RETURN_IF_ERROR(CheckChoice(option, lower, {"true", "false"}));
  return lower == "true";
}

absl::Status ReadOverride(const std::string& value, Plan* plan) {
  absl::string_view text = value;
  if (!absl::ConsumePrefix(&text, "(") || !absl::ConsumeSuffix(&text, ")")) {
    return BadValue("override_linear_precision", value,
                    "(fprop,dgrad,wgrad), each True or False");
  }
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  if (parts.size() != 3) {
    return BadValue("override_linear_precision", value, "three of them");
  }
  bool* const fields[] = {&plan->fprop_high_precision,
                          &plan->dgrad_high_precision,
                          &plan->wgrad_high_precision};
  for (size_t i = 0; i < 3; ++i) {
    SK_ASSIGN_OR_RETURN(*fields[i],
                        ReadBool("override_linear_precision", parts[i]));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ImportedRecipe> ImportTransformerEngine(
    absl::Span<const std::string> options) {
  Values values = {{"margin", "0"},
                   {"fp8_format", "HYBRID"},
                   {"amax_history_len", "1024"},
                   {"amax_compute_algo", "max"},
                   {"scaling_factor_compute_algo", "None"},
                   {"override_linear_precision", "(False,False,False)"},
                   {"reduce_amax", "True"},
                   {"fp8_dpa", "False"},
                   {"fp8_mha", "False"}};
  std::set<std::string> given;
  for (const std::string& piece : SplitOptions(absl::StrJoin(options, " "))) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(piece, absl::MaxSplits('=', 1));
    const auto known = values.find(parts.first);
    if (known == values.end()) {
      std::vector<std::string> names;
      for (const auto& [name, value] : values) names.push_back(name);
      return absl::InvalidArgumentError(
          absl::StrCat("unknown option ", Quoted(parts.first),
                       DidYouMean(parts.first, names)));
    }
    if (!given.insert(parts.first).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("option ", Quoted(parts.first), ": given twice"));
    }
    known->second = parts.second;
  }
  Plan plan;
  plan.name = "imported_transformer_engine";
  plan.description = "From TransformerEngine's DelayedScaling";
  // "Format.HYBRID", "HYBRID", "'max'" are what Python prints.
  std::vector<absl::string_view> format_path =
      absl::StrSplit(values["fp8_format"], '.');
  plan.format = absl::AsciiStrToLower(format_path.back());
  SK_RETURN_IF_ERROR(
      CheckChoice("fp8_format", plan.format, {"e4m3", "hybrid"}));
  absl::string_view algo = values["amax_compute_algo"];
  for (absl::string_view quote : {"'", "\""}) {
    if (absl::ConsumePrefix(&algo, quote)) absl::ConsumeSuffix(&algo, quote);
  }
  SK_RETURN_IF_ERROR(
      CheckChoice("amax_compute_algo", algo, {"max", "most_recent"}));
  SK_RETURN_IF_ERROR(CheckInteger("margin", values["margin"], 0, 32));
  SK_RETURN_IF_ERROR(
      CheckInteger("amax_history_len", values["amax_history_len"], 1, 65536));
  if (values["scaling_factor_compute_algo"] != "None") {
    return BadValue("scaling_factor_compute_algo",
                    values["scaling_factor_compute_algo"],
                    "None: a function cannot be in a recipe file");
  }
  SK_RETURN_IF_ERROR(ReadOverride(values["override_linear_precision"], &plan));
  SK_ASSIGN_OR_RETURN(plan.reduce_amax,
                      ReadBool("reduce_amax", values["reduce_amax"]));
  plan.delayed =
      absl::StrCat("margin: ", values["margin"],
                   " amax_history_len: ", values["amax_history_len"],
                   " amax_compute_algo: ", absl::AsciiStrToUpper(algo));
  std::vector<std::string> notes;
  for (const char* attention : {"fp8_dpa", "fp8_mha"}) {
    SK_ASSIGN_OR_RETURN(const bool on, ReadBool(attention, values[attention]));
    if (on) {
      notes.push_back(
          absl::StrCat(attention,
                       ": the program adds the attention's slots "
                       "(RecipeState::AddSlot), which get this recipe too"));
    }
  }
  return Write(plan, std::move(notes));
}

}  // namespace scalekeeper
