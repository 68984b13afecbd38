#include "benchmarks/matmul_rows_cuda.h"

#include <functional>

namespace scalekeeper {

std::vector<Row> MatmulRows() {
  const auto row = [](const std::string& name,
                      const std::function<void(Row*)>& change) {
    Row r;
    r.name = name;
    change(&r);
    return r;
  };
  const auto big = [](Row* r) { r->m = r->n = r->k = 8192; };
  const auto e5m2 = [](Row* r) { r->x_format = Format::kE5M2; };
  const auto scaled = [](Row* r, const Scaled& x, const Scaled& w) {
    r->x_scaled = x;
    r->w_scaled = w;
  };
  return {
      row("8192/bf16",
          [&](Row* r) {
            big(r);
            r->x_format = std::nullopt;
          }),
      row("8192/bf16_k8184",
          [&](Row* r) {
            big(r);
            r->k = 8184;
            r->x_format = std::nullopt;
          }),
      row("8192/e4m3_fast", big),
      row("8192/e4m3",
          [&](Row* r) {
            big(r);
            r->fast_accum = false;
          }),
      row("8192/e5m2_e4m3",
          [&](Row* r) {
            big(r);
            e5m2(r);
          }),
      row("8192/e4m3_out_f32",
          [&](Row* r) {
            big(r);
            r->out = DType::kF32;
          }),
      row("4096/e4m3_fast", [](Row*) {}),
      row("4096/e4m3", [](Row* r) { r->fast_accum = false; }),
      row("4096/e4m3_out_f16", [](Row* r) { r->out = DType::kF16; }),
      row("4096/out_e4m3_amax", [](Row* r) { r->out_format = Format::kE4M3; }),
      row("4096/e5m2_e4m3_out_e5m2_amax",
          [&](Row* r) {
            e5m2(r);
            r->out_format = Format::kE5M2;
          }),
      row("4096/bias_bf16", [](Row* r) { r->bias = DType::kBF16; }),
      row("4096/bias_bf16_out_f32",
          [](Row* r) {
            r->bias = DType::kBF16;
            r->out = DType::kF32;
          }),
      row("4096/bias_f16_out_f16",
          [](Row* r) { r->bias = r->out = DType::kF16; }),
      row("4096/bias_bf16_out_e4m3_amax",
          [](Row* r) {
            r->bias = DType::kBF16;
            r->out_format = Format::kE4M3;
          }),
      row("4096/gelu", [](Row* r) { r->activation = Activation::kGelu; }),
      row("4096/gelu_bias",
          [](Row* r) {
            r->activation = Activation::kGelu;
            r->bias = DType::kBF16;
          }),
      row("4096/relu", [](Row* r) { r->activation = Activation::kRelu; }),
      row("4096/relu_bias",
          [](Row* r) {
            r->activation = Activation::kRelu;
            r->bias = DType::kBF16;
          }),
      row("4096/e5m2_e4m3_accumulate_f32",
          [&](Row* r) {
            e5m2(r);
            r->out = DType::kF32;
            r->accumulate = true;
          }),
      row("4096/accumulate_bf16", [](Row* r) { r->accumulate = true; }),
      row("4096/n4088", [](Row* r) { r->n = 4088; }),
      row("4096/m4095", [](Row* r) { r->m = 4095; }),
      row("4096/m1", [](Row* r) { r->m = 1; }),
      row("4096/w_16_byte_aligned", [](Row* r) { r->w_off_by_16 = true; }),
      row("8192/rowwise_fast",
          [&](Row* r) {
            big(r);
            scaled(r, kRowwise, kRowwise);
          }),
      row("8192/rowwise",
          [&](Row* r) {
            big(r);
            scaled(r, kRowwise, kRowwise);
            r->fast_accum = false;
          }),
      row("8192/x1x128_w1x128",
          [&](Row* r) {
            big(r);
            scaled(r, k1x128, k1x128);
          }),
      row("8192/x1x128_w128x128",
          [&](Row* r) {
            big(r);
            scaled(r, k1x128, k128x128);
          }),
      row("8192/x128x128_w1x128",
          [&](Row* r) {
            big(r);
            scaled(r, k128x128, k1x128);
          }),
      row("8192/x1x128_e5m2_w1x128",
          [&](Row* r) {
            big(r);
            e5m2(r);
            scaled(r, k1x128, k1x128);
          }),
      row("4096/rowwise_fast", [&](Row* r) { scaled(r, kRowwise, kRowwise); }),
      row("4096/rowwise_e5m2_out_f32",
          [&](Row* r) {
            e5m2(r);
            scaled(r, kRowwise, kRowwise);
            r->out = DType::kF32;
          }),
      row("4096/rowwise_e5m2_accumulate_f32",
          [&](Row* r) {
            e5m2(r);
            scaled(r, kRowwise, kRowwise);
            r->out = DType::kF32;
            r->accumulate = true;
          }),
      row("4096/rowwise_bias_bf16",
          [&](Row* r) {
            scaled(r, kRowwise, kRowwise);
            r->bias = DType::kBF16;
          }),
      row("4096/x1x128_w128x128_out_f32",
          [&](Row* r) {
            scaled(r, k1x128, k128x128);
            r->out = DType::kF32;
          }),
      row("4096/x1x128_e5m2_w1x128_accumulate_f32",
          [&](Row* r) {
            e5m2(r);
            scaled(r, k1x128, k1x128);
            r->out = DType::kF32;
            r->accumulate = true;
          }),
      // The scales of one operand are written out on each call.
      row("4096/rowwise_x_per_tensor_w",
          [&](Row* r) { scaled(r, kRowwise, Scaled()); }),
      row("4096/x128x128_w128x128",
          [&](Row* r) { scaled(r, k128x128, k128x128); }),
      // Emulated in bfloat16.
      row("4096/mxfp8", [&](Row* r) { scaled(r, kMxfp8, kMxfp8); }),
      // cuBLASLt takes neither; what Matmul does instead.
      row("4096/n4095_padded", [](Row* r) { r->n = 4095; }),
      row("4096/k4095_padded", [](Row* r) { r->k = 4095; }),
  };
}

}  // namespace scalekeeper
