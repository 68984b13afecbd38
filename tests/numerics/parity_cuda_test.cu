// Parity: every formula of numerics/ gives the same bits on the GPU as on the
// host. Exhaustive where the input is 8 or 16 bits wide, stepped over float32
// bit patterns otherwise.
#include <cstdint>
#include <vector>

#include "cuda_runtime.h"
#include "gtest/gtest.h"
#include "numerics/amax.h"
#include "numerics/bits.h"
#include "numerics/e8m0.h"
#include "numerics/format.h"
#include "numerics/scale.h"

namespace scalekeeper {
namespace {

// Every result of one float32 input, as bits.
struct Results {
  uint32_t e4m3, e5m2, e2m1, bf16, f16, amax;
  uint32_t e8m0_up_e4m3, e8m0_up_e5m2, e8m0_floor_e4m3, e8m0_floor_e5m2;
  uint32_t delayed, delayed_margin, backed_off, inverse;
  uint32_t current, current_pow2, current_epsilon;
};

SK_HOST_DEVICE inline Results Evaluate(uint32_t bits) {
  const float x = FloatFromBits(bits);
  const uint32_t amax = AmaxBits(x);
  const float a = FloatFromBits(amax);
  Results r = {};
  r.e4m3 = EncodeE4M3(x);
  r.e5m2 = EncodeE5M2(x);
  r.e2m1 = EncodeE2M1(x);
  r.bf16 = BF16FromFloat(x);
  r.f16 = F16FromFloat(x);
  r.amax = amax;
  r.e8m0_up_e4m3 = E8M0RoundUpFromAmax(amax, Format::kE4M3);
  r.e8m0_up_e5m2 = E8M0RoundUpFromAmax(amax, Format::kE5M2);
  r.e8m0_floor_e4m3 = E8M0FloorFromAmax(amax, Format::kE4M3);
  r.e8m0_floor_e5m2 = E8M0FloorFromAmax(amax, Format::kE5M2);
  CurrentScaleOptions options;
  r.current = BitsFromFloat(CurrentScaleFromAmax(amax, options));
  options.power_2_scale = true;
  r.current_pow2 = BitsFromFloat(CurrentScaleFromAmax(amax, options));
  options.amax_epsilon = 1e-4f;
  r.current_epsilon = BitsFromFloat(CurrentScaleFromAmax(amax, options));
  if (amax != 0 && !IsNonFiniteAmax(amax)) {
    r.delayed = BitsFromFloat(ScaleFromAmax(a, 448.0f, 0));
    r.delayed_margin = BitsFromFloat(ScaleFromAmax(a, 57344.0f, 32));
    r.backed_off = BitsFromFloat(BackedOffScale(a));
    r.inverse = BitsFromFloat(ScaleInverse(a));
  }
  return r;
}

struct Decoded {
  uint32_t e4m3, e5m2, e2m1, e8m0, e8m0_scale, bf16, f16;
};

SK_HOST_DEVICE inline uint32_t CanonicalNaN(float value) {
  return AmaxBits(value) > kFloatInfBits ? 0x7FC00000u : BitsFromFloat(value);
}

SK_HOST_DEVICE inline Decoded DecodeAll(uint32_t code) {
  const uint8_t byte = static_cast<uint8_t>(code);
  const uint16_t half = static_cast<uint16_t>(code);
  return {CanonicalNaN(DecodeE4M3(byte)),  CanonicalNaN(DecodeE5M2(byte)),
          CanonicalNaN(DecodeE2M1(byte)),  CanonicalNaN(DecodeE8M0(byte)),
          CanonicalNaN(E8M0Scale(byte)),   CanonicalNaN(FloatFromBF16(half)),
          CanonicalNaN(FloatFromF16(half))};
}

__global__ void EvaluateKernel(const uint32_t* bits, Results* results, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) results[i] = Evaluate(bits[i]);
}

__global__ void DecodeKernel(Decoded* decoded, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) decoded[i] = DecodeAll(static_cast<uint32_t>(i));
}

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t n) : n_(n) {
    EXPECT_EQ(cudaMalloc(&data_, n * sizeof(T)), cudaSuccess);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  T* get() { return static_cast<T*>(data_); }
  std::vector<T> ToHost() {
    std::vector<T> host(n_);
    EXPECT_EQ(
        cudaMemcpy(host.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost),
        cudaSuccess);
    return host;
  }

 private:
  size_t n_;
  void* data_ = nullptr;
};

void ExpectParity(const std::vector<uint32_t>& inputs) {
  const int n = static_cast<int>(inputs.size());
  DeviceArray<uint32_t> device_inputs(inputs.size());
  DeviceArray<Results> device_results(inputs.size());
  ASSERT_EQ(
      cudaMemcpy(device_inputs.get(), inputs.data(),
                 inputs.size() * sizeof(uint32_t), cudaMemcpyHostToDevice),
      cudaSuccess);
  EvaluateKernel<<<(n + 255) / 256, 256>>>(device_inputs.get(),
                                           device_results.get(), n);
  ASSERT_EQ(cudaGetLastError(), cudaSuccess);
  const std::vector<Results> results = device_results.ToHost();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Results want = Evaluate(inputs[i]);
    const uint32_t* got_words = reinterpret_cast<const uint32_t*>(&results[i]);
    const uint32_t* want_words = reinterpret_cast<const uint32_t*>(&want);
    for (size_t field = 0; field < sizeof(Results) / sizeof(uint32_t);
         ++field) {
      ASSERT_EQ(got_words[field], want_words[field])
          << std::hex << "input 0x" << inputs[i] << ", field " << field;
    }
  }
}

TEST(NumericsParityTest, EveryBfloat16Input) {
  std::vector<uint32_t> inputs;
  for (uint32_t bits = 0; bits < 65536; ++bits) inputs.push_back(bits << 16);
  ExpectParity(inputs);
}

TEST(NumericsParityTest, EveryExponentTiesAndNeighbours) {
  std::vector<uint32_t> inputs;
  for (uint32_t exponent = 0; exponent < 512; ++exponent) {
    for (uint32_t top = 0; top < 64; ++top) {
      const uint32_t base = (exponent << 23) | (top << 17);
      for (uint32_t low : {0u, 1u, 2u, 0xFFFFu, 0x10000u, 0x10001u, 0x1FFFFu}) {
        inputs.push_back(base + low);
      }
    }
  }
  ExpectParity(inputs);
}

TEST(NumericsParityTest, BitPatternsInLargeSteps) {
  std::vector<uint32_t> inputs;
  for (uint64_t bits = 0; bits < (1ull << 32); bits += 4099) {
    inputs.push_back(static_cast<uint32_t>(bits));
  }
  ExpectParity(inputs);
}

TEST(NumericsParityTest, EveryCodeDecodes) {
  constexpr int kCodes = 65536;
  DeviceArray<Decoded> device_decoded(kCodes);
  DecodeKernel<<<kCodes / 256, 256>>>(device_decoded.get(), kCodes);
  ASSERT_EQ(cudaGetLastError(), cudaSuccess);
  const std::vector<Decoded> decoded = device_decoded.ToHost();
  for (uint32_t code = 0; code < kCodes; ++code) {
    const Decoded want = DecodeAll(code);
    EXPECT_EQ(decoded[code].e4m3, want.e4m3) << code;
    EXPECT_EQ(decoded[code].e5m2, want.e5m2) << code;
    EXPECT_EQ(decoded[code].e2m1, want.e2m1) << code;
    EXPECT_EQ(decoded[code].e8m0, want.e8m0) << code;
    EXPECT_EQ(decoded[code].e8m0_scale, want.e8m0_scale) << code;
    EXPECT_EQ(decoded[code].bf16, want.bf16) << code;
    EXPECT_EQ(decoded[code].f16, want.f16) << code;
  }
}

}  // namespace
}  // namespace scalekeeper
