#include "tools/accuracy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/dtype.h"
#include "base/status_macros.h"
#include "base/tensor_view.h"
#include "quantizer/kernels.h"
#include "quantizer/quantizer.h"
#include "tools/tensor_quantizer.h"

namespace scalekeeper {
namespace {

TensorView Float32(Buffer& buffer, const TensorJob& job) {
  return TensorView::Contiguous(buffer.data(), DType::kF32, job.rows, job.cols);
}

absl::StatusOr<Buffer> Float32Buffer(const TensorJob& job) {
  return Buffer::Allocate(
      HostAllocator(),
      static_cast<size_t>(job.rows * job.cols) * sizeof(float));
}

// Sums and maxima of what was lost. High precision has no cast that counts.
void Compare(const float* x, const float* back, int64_t count, bool counted,
             CopyAccuracy* accuracy) {
  Statistics& s = accuracy->statistics;
  s.count = count;
  double amax = 0, max_error = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double value = x[i];
    if (!counted) {
      s.nonzero += value != 0;
      s.underflow += value != 0 && back[i] == 0;
      s.non_finite += !std::isfinite(value);
    }
    if (!std::isfinite(value)) continue;
    const double error = std::abs(value - static_cast<double>(back[i]));
    s.signal += value * value;
    s.error += error * error;
    amax = std::max(amax, std::abs(value));
    max_error = std::max(max_error, error);
    if (value != 0 && back[i] != 0) {
      accuracy->max_relative_error =
          std::max(accuracy->max_relative_error, error / std::abs(value));
    }
  }
  if (max_error != 0) accuracy->max_error = max_error / amax;
  if (std::isnan(s.error)) {  // maxima pass over a NaN that was read back
    accuracy->max_error = accuracy->max_relative_error = s.error;
  }
}

struct MeasuredCopy {
  CopyAccuracy accuracy;
  Buffer back;
};

absl::StatusOr<MeasuredCopy> MeasureCopy(const TensorQuantizer& own,
                                         const TensorJob& job,
                                         const ConstTensorView& x,
                                         const Buffer& exact,
                                         const Usages& usages) {
  kernels::CastCounters counters;
  own.quantizer->set_usages(usages);
  own.quantizer->set_counters(&counters);
  const absl::StatusOr<QuantizedTensor> q =
      own.quantizer->Quantize(x, Stream{});
  own.quantizer->set_counters(nullptr);
  SK_RETURN_IF_ERROR(q.status());
  MeasuredCopy copy;
  SK_ASSIGN_OR_RETURN(copy.back, Float32Buffer(job));
  SK_RETURN_IF_ERROR(
      own.quantizer->Dequantize(*q, Float32(copy.back, job), Stream{}));
  Statistics& s = copy.accuracy.statistics;
  s.nonzero = static_cast<int64_t>(counters.nonzero);
  s.underflow = static_cast<int64_t>(counters.underflow);
  s.saturation = static_cast<int64_t>(counters.saturation);
  s.non_finite = static_cast<int64_t>(counters.non_finite);
  Compare(exact.as<float>(), copy.back.as<float>(), x.size(),
          own.policy.scaling != Scaling::kHighPrecision, &copy.accuracy);
  return copy;
}

}  // namespace

absl::StatusOr<Accuracy> MeasureAccuracy(absl::string_view name,
                                         const Recipe& recipe,
                                         const TensorJob& job,
                                         const Buffer& values) {
  SK_ASSIGN_OR_RETURN(const TensorQuantizer own,
                      MakeTensorQuantizer(recipe, job));
  const ConstTensorView x = ConstTensorView(ConstTensorView::Contiguous(
      values.data(), job.dtype, job.rows, job.cols));
  SK_ASSIGN_OR_RETURN(Buffer exact, Float32Buffer(job));
  SK_RETURN_IF_ERROR(
      kernels::Convert(x, Float32(exact, job), /*run=*/{}, Stream{}));
  Accuracy result;
  result.recipe = std::string(name);
  result.job = job;
  result.policy = own.policy;
  Buffer row_back;
  if (own.usages.row_wise) {
    SK_ASSIGN_OR_RETURN(MeasuredCopy copy,
                        MeasureCopy(own, job, x, exact, {true, false}));
    result.row_wise = copy.accuracy;
    row_back = std::move(copy.back);
  }
  if (own.usages.column_wise) {
    SK_ASSIGN_OR_RETURN(const MeasuredCopy copy,
                        MeasureCopy(own, job, x, exact, {false, true}));
    result.column_wise = copy.accuracy;
    result.same =
        result.row_wise &&
        (copy.back.size() == 0 ||
         std::memcmp(copy.back.data(), row_back.data(), copy.back.size()) == 0);
  }
  return result;
}

}  // namespace scalekeeper
