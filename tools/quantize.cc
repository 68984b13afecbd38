#include "tools/quantize.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/buffer.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "quantizer/quantized_tensor.h"
#include "quantizer/scale_grid.h"
#include "quantizer/statistics.h"
#include "tools/tensor_quantizer.h"

namespace scalekeeper {
namespace {

std::string Bytes(const Buffer& buffer) {
  return std::string(buffer.as<char>(), buffer.size());
}

// Whether there is one scale, or one beside those of the blocks.
bool HasTensorScale(Scaling scaling) {
  return scaling == Scaling::kDelayed || scaling == Scaling::kCurrent ||
         scaling == Scaling::kNvfp4;
}

// "[1]", "[1000, 3]"; "[]" where there is no scale.
std::string ScaleShape(const QuantizedTensor& tensor,
                       const QuantizedData& data) {
  switch (tensor.scaling) {
    case Scaling::kHighPrecision:
      return "[]";
    case Scaling::kDelayed:
    case Scaling::kCurrent:
      return "[1]";
    default:
      return absl::StrCat("[", data.scales.rows, ", ", data.scales.cols, "]");
  }
}

std::string InfoJson(const Recipe& recipe, const TensorJob& job,
                     const Policy& policy, const QuantizedTensor& tensor,
                     const Statistics& statistics) {
  const bool scaled = policy.scaling != Scaling::kHighPrecision;
  const bool has_scale = scaled && HasTensorScale(policy.scaling);
  std::string text = "{\n";
  const auto add = [&text](absl::string_view name, absl::string_view value) {
    absl::StrAppend(&text, text.size() > 2 ? ",\n" : "", "  ", JsonString(name),
                    ": ", value);
  };
  add("module", JsonString(job.module));
  add("role", JsonString(Name(job.role)));
  add("step", absl::StrCat(job.step));
  add("recipe", JsonString(recipe.name()));
  add("fingerprint", JsonString(recipe.fingerprint()));
  add("policy", JsonString(Describe(policy)));
  add("scaling", JsonString(Name(policy.scaling)));
  add("format", JsonString(scaled ? Name(policy.format)
                                  : RecipeName(policy.high_precision_dtype)));
  add("shape", absl::StrCat("[", job.rows, ", ", job.cols, "]"));
  add("scale_shape", ScaleShape(tensor, *tensor.row_wise));
  add("shape_t", absl::StrCat("[", job.cols, ", ", job.rows, "]"));
  add("scale_shape_t", ScaleShape(tensor, *tensor.column_wise));
  add("scale_type",
      scaled ? JsonString(Name(ScaleTypeOf(policy.scaling))) : "null");
  add("amax", JsonNumberOrName(statistics.amax()));
  add("scale", has_scale ? JsonNumberOrName(statistics.scale) : "null");
  add("scale_inv", has_scale ? JsonNumberOrName(statistics.scale_inv) : "null");
  add("underflow", JsonNumberOrName(statistics.underflow_fraction()));
  add("saturation", JsonNumberOrName(statistics.saturation_fraction()));
  add("sqnr_db", JsonNumberOrName(statistics.sqnr_db()));
  add("non_finite", absl::StrCat(statistics.non_finite));
  return text + "\n}\n";
}

std::string Summary(const TensorJob& job, const Policy& policy,
                    const QuantizedTensor& tensor,
                    const Statistics& statistics) {
  const std::string what =
      absl::StrCat(job.module, "/", Name(job.role), ": ", job.rows, "x",
                   job.cols, " ", Name(job.dtype), " -> ");
  if (policy.scaling == Scaling::kHighPrecision) {
    return absl::StrCat(
        what, "high_precision: codes.bin holds ",
        Name(policy.high_precision_dtype),
        " values and there is no scale (scale_inv.bin is empty)");
  }
  const std::string scale =
      HasTensorScale(policy.scaling)
          ? absl::StrFormat("scale %.9g", statistics.scale)
          : absl::StrCat("scales ", ScaleShape(tensor, *tensor.row_wise));
  return absl::StrFormat(
      "%s%s %s, %s, amax %.9g, underflow %.2f%%, saturation %.2f%%, "
      "SQNR %.2f dB, %d non-finite",
      what, Name(policy.scaling), Name(policy.format), scale, statistics.amax(),
      100 * statistics.underflow_fraction(),
      100 * statistics.saturation_fraction(), statistics.sqnr_db(),
      statistics.non_finite);
}

}  // namespace

absl::StatusOr<QuantizedFiles> QuantizeValues(const Recipe& recipe,
                                              const TensorJob& job,
                                              absl::string_view values,
                                              absl::string_view source) {
  SK_ASSIGN_OR_RETURN(const Buffer input, TensorValues(job, values, source));
  SK_ASSIGN_OR_RETURN(const TensorQuantizer own,
                      MakeTensorQuantizer(recipe, job));
  const Policy& policy = own.policy;
  own.quantizer->set_usages({/*row_wise=*/true, /*column_wise=*/true});
  const ConstTensorView x = ConstTensorView(
      ConstTensorView::Contiguous(input.data(), job.dtype, job.rows, job.cols));
  SK_ASSIGN_OR_RETURN(const Statistics statistics,
                      own.quantizer->Measure(x, Stream{}));
  SK_ASSIGN_OR_RETURN(const QuantizedTensor tensor,
                      own.quantizer->Quantize(x, Stream{}));

  QuantizedFiles result;
  result.files = {
      {"codes.bin", Bytes(tensor.row_wise->codes)},
      {"scale_inv.bin", Bytes(tensor.row_wise->scale_inv)},
      {"codes_t.bin", Bytes(tensor.column_wise->codes)},
      {"scale_inv_t.bin", Bytes(tensor.column_wise->scale_inv)},
  };
  const NamedContents tensor_scales[] = {
      {"tensor_scale_inv.bin", Bytes(tensor.row_wise->tensor_scale_inv)},
      {"tensor_scale_inv_t.bin", Bytes(tensor.column_wise->tensor_scale_inv)},
  };
  for (const NamedContents& file : tensor_scales) {
    if (policy.scaling == Scaling::kNvfp4) {
      result.files.push_back(file);
    } else {
      result.absent.push_back(file.first);
    }
  }
  result.files.push_back(
      {"info.json", InfoJson(recipe, job, policy, tensor, statistics)});
  result.summary = Summary(job, policy, tensor, statistics);
  return result;
}

}  // namespace scalekeeper
