// The example kernel gives the host's bits: codes, scale_inv and amax.
#include <random>
#include <vector>

#include "examples/fused_rmsnorm_quantize/rmsnorm.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/device_bytes.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

const Device kGpu = Device::Cuda(0);

template <typename T>
std::vector<uint8_t> BytesOf(const std::vector<T>& values) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  return {bytes, bytes + values.size() * sizeof(T)};
}

TEST(FusedRmsNormQuantizeTest, GivesTheBitsOfTheHost) {
  for (const auto& [rows, cols] :
       {std::pair<int64_t, int64_t>{1, 1}, {3, 255}, {64, 4096}, {7, 1000}}) {
    std::mt19937 generator(static_cast<unsigned>(cols));
    std::normal_distribution<float> normal(0, 3);
    std::vector<uint16_t> x(static_cast<size_t>(rows * cols));
    for (uint16_t& value : x) value = BF16FromFloat(normal(generator));
    std::vector<float> gamma(static_cast<size_t>(cols));
    for (float& value : gamma) value = 1.0f + 0.1f * normal(generator);
    const float scale = 149.33333f;
    const float scale_inv = 1.0f / scale;

    RmsNormTask task;
    task.x = x.data();
    task.gamma = gamma.data();
    task.rows = rows;
    task.cols = cols;
    std::vector<uint8_t> codes(x.size());
    float host_scale_inv = 0;
    uint32_t amax = 0;
    task.codes = codes.data();
    task.scale_inv = &host_scale_inv;
    SlotView slot;
    slot.amax = &amax;
    slot.scale = &scale;
    slot.scale_inv = &scale_inv;
    RmsNormQuantizeHost(task, slot);

    DeviceBytes gpu_x(kGpu, BytesOf(x)), gpu_gamma(kGpu, BytesOf(gamma));
    DeviceBytes gpu_codes(kGpu, codes.size());
    DeviceBytes gpu_result = DeviceBytes::Of<float>(kGpu, 0.0f);
    DeviceBytes gpu_amax = DeviceBytes::Of<uint32_t>(kGpu, 0);
    DeviceBytes gpu_scale = DeviceBytes::Of(kGpu, scale);
    DeviceBytes gpu_inverse = DeviceBytes::Of(kGpu, scale_inv);
    task.x = gpu_x.as<uint16_t>();
    task.gamma = gpu_gamma.as<float>();
    task.codes = gpu_codes.as<uint8_t>();
    task.scale_inv = gpu_result.as<float>();
    slot.amax = gpu_amax.as<uint32_t>();
    slot.scale = gpu_scale.as<float>();
    slot.scale_inv = gpu_inverse.as<float>();
    ASSERT_THAT(RmsNormQuantizeCuda(task, slot, Stream()), IsOk());
    EXPECT_EQ(gpu_codes.Download(), codes) << rows << "x" << cols;
    EXPECT_EQ(gpu_amax.Get<uint32_t>(), amax);
    EXPECT_EQ(gpu_result.Get<float>(), scale_inv);
  }
}

TEST(FusedRmsNormQuantizeTest, ShapesThatDoNotFitAreRefused) {
  EXPECT_THAT(RmsNormQuantizeCuda({}, {}, Stream()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::HasSubstr("got 0x0")));
}

}  // namespace
}  // namespace scalekeeper
