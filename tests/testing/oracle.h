// A slow second opinion on every conversion, for tests only.
//
// It is written from the format definitions (OCP OFP8, OCP MX, IEEE 754) and
// includes no numerics/ header, on purpose: host and CUDA share numerics/, so
// only a second definition can show that a formula there is wrong. Encoding is
// a search for the nearest of the decoded values in double, ties to the even
// code. Do not make it faster by sharing code.
#ifndef SCALEKEEPER_TESTS_TESTING_ORACLE_H_
#define SCALEKEEPER_TESTS_TESTING_ORACLE_H_

#include <cstdint>

namespace scalekeeper::oracle {

enum class Kind { kE4M3, kE5M2, kE2M1, kBF16, kF16 };

// How many codes have the sign bit clear: 128 for FP8, 8 for E2M1, 32,768 for
// the 16-bit formats. Code | PositiveCodes(kind) is the negative of code.
int PositiveCodes(Kind kind);

// The value of a code; NaN and infinities as such.
double Decode(Kind kind, uint32_t code);

// Nearest code, ties to even. FP8 and E2M1 saturate (infinities too), bfloat16
// and half overflow to infinity from the tie above their largest finite value.
// NaN gives a positive NaN code (7, which is +6, in E2M1).
uint32_t Encode(Kind kind, double value);

bool IsNanCode(Kind kind, uint32_t code);

// The value of an E8M0 code.
double DecodeE8M0(uint32_t code);

// The smallest E8M0 code whose value is at least `p`; 254 when there is none.
uint32_t EncodeE8M0RoundUp(double p);

// The float32 with these bits, and back.
float FloatOfBits(uint32_t bits);
uint32_t BitsOfFloat(float value);

}  // namespace scalekeeper::oracle

#endif  // SCALEKEEPER_TESTS_TESTING_ORACLE_H_
