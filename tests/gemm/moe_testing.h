// The three GEMMs of a small mixture of experts, from GroupedTensors and expert
// by expert, on any device.
#ifndef SCALEKEEPER_TESTS_GEMM_MOE_TESTING_H_
#define SCALEKEEPER_TESTS_GEMM_MOE_TESTING_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "amax/recipe_state.h"
#include "base/device_memory.h"
#include "gemm/grouped_matmul.h"
#include "gtest/gtest.h"
#include "quantizer/grouped_quantizer.h"
#include "quantizer/quantizer.h"
#include "tests/amax/state_testing.h"
#include "tests/gemm/gemm_testing.h"
#include "tests/testing/device_tensor.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {

// What a layer computes: y, dx (tokens x N, tokens x K) and each expert's dw.
struct MoeOutputs {
  std::vector<uint8_t> y, dx;
  std::vector<std::vector<uint8_t>> dw;
};

class MoeLayer {
 public:
  static constexpr int64_t kIn = 48, kOut = 32;

  // `padding` rows behind the last expert's.
  MoeLayer(const std::string& recipe, Device device,
           std::vector<int64_t> splits, int64_t padding = 0)
      : device_(device), splits_(std::move(splits)) {
    for (const int64_t count : splits_) rows_ += count;
    rows_ += padding;
    RecipeStateOptions options;
    options.device = device;
    grouped_ = MakeState(recipe, options);
    single_ = MakeState(recipe, options);
    const int experts = static_cast<int>(splits_.size());
    grouped_slots_ = ValueOrDie(grouped_->AddModules("experts", experts));
    single_slots_ = ValueOrDie(single_->AddModules("experts", experts));
    EXPECT_THAT(grouped_->Freeze(), IsOk());
    EXPECT_THAT(single_->Freeze(), IsOk());
    std::vector<uint8_t> counts(splits_.size() * sizeof(int64_t));
    std::memcpy(counts.data(), splits_.data(), counts.size());
    counts_ = ValueOrDie(Upload(device, counts));
    for (size_t e = 0; e < splits_.size(); ++e) {
      weights_.push_back(QuantizeOne(single_slots_[e].weight,
                                     Values(e, kOut, kIn, 7).view(), stream_));
    }
  }

  // `usages` of the tokens.
  MoeOutputs Grouped(Usages usages, bool accumulate, Stream stream) {
    const GroupedTensor x8 = QuantizeGrouped(Role::kInput, kIn, 1, usages);
    const GroupedTensor dy8 = QuantizeGrouped(Role::kGrad, kOut, 2, usages);
    DeviceTensor y = Blank(rows_, kOut), dx = Blank(rows_, kIn);
    std::vector<DeviceTensor> dw;
    std::vector<TensorView> dw_views;
    for (size_t e = 0; e < splits_.size(); ++e) {
      dw.push_back(Blank(kOut, kIn));
      dw_views.push_back(dw.back().view());
    }
    const std::vector<MatmulOperand> w(weights_.begin(), weights_.end());
    EXPECT_THAT(GroupedMatmul(x8, w, y.view(), splits_, Fprop(), stream),
                IsOk());
    EXPECT_THAT(
        GroupedMatmul(dy8, w, dx.view(), splits_, MatmulOptions(), stream),
        IsOk());
    EXPECT_THAT(GroupedMatmulWgrad(dy8, x8, dw_views, splits_,
                                   Wgrad(accumulate), stream),
                IsOk());
    return Outputs(y, dx, dw, stream);
  }

  // The same, a Quantizer and a Matmul per expert.
  MoeOutputs Single(bool accumulate, Stream stream) {
    DeviceTensor x = TokensOf(kIn, 1), dy = TokensOf(kOut, 2);
    DeviceTensor y = Blank(rows_, kOut), dx = Blank(rows_, kIn);
    std::vector<DeviceTensor> dw;
    int64_t first = 0;
    for (size_t e = 0; e < splits_.size(); ++e) {
      const auto share = [&](TensorView view) {
        view.data =
            static_cast<char*>(view.data) +
            first * view.row_stride * static_cast<int64_t>(SizeOf(view.dtype));
        view.rows = splits_[e];
        return view;
      };
      const QuantizedTensor x8 =
          QuantizeOne(single_slots_[e].input, share(x.view()), stream);
      const QuantizedTensor dy8 =
          QuantizeOne(single_slots_[e].grad, share(dy.view()), stream);
      EXPECT_THAT(Matmul(x8, weights_[e], share(y.view()), Fprop(), stream),
                  IsOk());
      EXPECT_THAT(
          Matmul(dy8, weights_[e], share(dx.view()), MatmulOptions(), stream),
          IsOk());
      dw.push_back(Blank(kOut, kIn));
      EXPECT_THAT(Matmul(dy8, x8, dw.back().view(), Wgrad(accumulate), stream),
                  IsOk());
      first += splits_[e];
    }
    return Outputs(y, dx, dw, stream);
  }

  void EndStep(Stream stream) {
    EXPECT_THAT(grouped_->EndStep(stream), IsOk());
    EXPECT_THAT(single_->EndStep(stream), IsOk());
  }

  GroupedTensor QuantizeGrouped(Role role, int64_t cols, uint32_t seed,
                                Usages usages) {
    std::vector<SlotId> slots;
    for (const ModuleSlots& module : grouped_slots_) {
      slots.push_back(module.slot(role));
    }
    auto quantizer =
        ValueOrDie(GroupedQuantizer::Create(grouped_.get(), slots, usages));
    GroupedTensor out = ValueOrDie(quantizer->MakeEmpty(rows_, cols, stream_));
    DeviceTensor x = TokensOf(cols, seed);
    EXPECT_THAT(
        quantizer->QuantizeInto(x.view(), counts_.as<int64_t>(), &out, stream_),
        IsOk());
    return out;
  }
  const std::vector<QuantizedTensor>& weights() const { return weights_; }
  TensorView Out(DeviceTensor* tensor) { return tensor->view(); }
  DeviceTensor Blank(int64_t rows, int64_t cols) {
    return ValueOrDie(DeviceTensor::Of(
        device_, TestTensor::Of(DType::kF32, rows, cols,
                                [](int64_t, int64_t) { return 3.0f; })));
  }
  int64_t rows() const { return rows_; }

 private:
  static MatmulOptions Fprop() {
    MatmulOptions options;
    options.transb = true;
    return options;
  }
  static MatmulOptions Wgrad(bool accumulate) {
    MatmulOptions options;
    options.transa = true;
    options.accumulate = accumulate;
    return options;
  }

  // -7/4 to 7/4 in quarters, times a power of two that is the expert's; the
  // first is the largest. Scales are then powers of two and every sum is exact,
  // but different from expert to expert.
  static float ValueAt(size_t e, int64_t r, int64_t c, uint32_t seed) {
    const float quarters =
        r == 0 && c == 0 ? 7.0f
                         : static_cast<float>(HashAt(r, c, seed) % 15) - 7.0f;
    return std::ldexp(quarters, static_cast<int>((e + seed) % 4) - 4);
  }
  DeviceTensor Values(size_t e, int64_t rows, int64_t cols, uint32_t seed) {
    return ValueOrDie(DeviceTensor::Of(
        device_,
        TestTensor::Of(DType::kBF16, rows, cols, [&](int64_t r, int64_t c) {
          return ValueAt(e, r, c, seed);
        })));
  }
  // All experts' rows; padding is NaN.
  DeviceTensor TokensOf(int64_t cols, uint32_t seed) {
    TestTensor tokens(DType::kBF16, rows_, cols);
    int64_t row = 0;
    for (size_t e = 0; e < splits_.size(); ++e) {
      for (int64_t r = 0; r < splits_[e]; ++r, ++row) {
        for (int64_t c = 0; c < cols; ++c) {
          tokens.Set(row, c, ValueAt(e, r, c, seed));
        }
      }
    }
    return ValueOrDie(DeviceTensor::Of(device_, std::move(tokens)));
  }
  QuantizedTensor QuantizeOne(SlotId slot, ConstTensorView x, Stream stream) {
    quantizers_.push_back(ValueOrDie(
        MakeQuantizer(single_.get(), slot, {/*row_wise=*/true, true})));
    return ValueOrDie(quantizers_.back()->Quantize(x, stream));
  }
  MoeOutputs Outputs(DeviceTensor& y, DeviceTensor& dx,
                     std::vector<DeviceTensor>& dw, Stream stream) {
    MoeOutputs out;
    out.y = ValueOrDie(y.Download(stream)).bytes();
    out.dx = ValueOrDie(dx.Download(stream)).bytes();
    for (DeviceTensor& one : dw) {
      out.dw.push_back(ValueOrDie(one.Download(stream)).bytes());
    }
    return out;
  }

  const Device device_;
  const Stream stream_;
  const std::vector<int64_t> splits_;
  int64_t rows_ = 0;
  std::unique_ptr<RecipeState> grouped_, single_;
  std::vector<ModuleSlots> grouped_slots_, single_slots_;
  Buffer counts_;
  std::vector<std::unique_ptr<Quantizer>> quantizers_;
  std::vector<QuantizedTensor> weights_;
};

inline std::vector<std::string> MoeRecipes() {
  return {
      "defaults { input { format: E4M3 delayed {} } weight { format: E4M3 "
      "delayed {} } grad { format: E5M2 delayed {} } }",
      "defaults { input { format: E4M3 current {} } weight { format: E4M3 "
      "current {} } grad { format: E5M2 current {} } }",
      "defaults { all { format: E4M3 current { power_2_scale: true } } }",
  };
}
inline std::vector<std::vector<int64_t>> MoeSplits() {
  return {{5, 0, 3}, {0, 16, 33, 0}, {16, 32, 64}, {0, 0}, {1}};
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_GEMM_MOE_TESTING_H_
