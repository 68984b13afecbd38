// Custom quantizers: the registry, what a factory may do wrong, and what the
// library does with a class that it does not know.
#include "quantizer/custom_quantizer.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/counting_allocator.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr Stream kStream;
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;

// Signs: one byte an element, 0 or 1; reads back as -step or step.
class SignQuantizer : public Quantizer {
 public:
  SignQuantizer(const CustomQuantizerArgs& args, float step)
      : Quantizer(args), step_(step) {}

 protected:
  absl::Status QuantizeImpl(const Call& call, QuantizedTensor* out) override {
    if (call.noop_flag != nullptr && *call.noop_flag != 0) {
      return absl::OkStatus();
    }
    const auto* x = static_cast<const float*>(call.x.data);
    for (int64_t i = 0; i < call.x.size(); ++i) {
      out->row_wise->codes.as<uint8_t>()[i] = x[i] < 0 ? 1 : 0;
    }
    return absl::OkStatus();
  }
  absl::Status DequantizeImpl(const QuantizedTensor& q, const TensorView& out,
                              Stream) const override {
    auto* values = static_cast<float*>(out.data);
    for (int64_t i = 0; i < out.size(); ++i) {
      values[i] = q.row_wise->codes.as<uint8_t>()[i] != 0 ? -step_ : step_;
    }
    return absl::OkStatus();
  }

 private:
  const float step_;
};

absl::StatusOr<std::unique_ptr<Quantizer>> MakeSign(
    const CustomQuantizerArgs& args) {
  if (absl::Status status = args.CheckKeys({"step", "note", "loud"});
      !status.ok()) {
    return status;
  }
  const absl::StatusOr<double> step = args.Number("step", 1);
  if (!step.ok()) return step.status();
  const absl::StatusOr<std::string> note = args.Text("note", "");
  if (!note.ok()) return note.status();
  const absl::StatusOr<bool> loud = args.Bool("loud", false);
  if (!loud.ok()) return loud.status();
  return std::make_unique<SignQuantizer>(args, static_cast<float>(*step));
}

// Names are taken for the whole process, so they are taken once.
void RegisterAll() {
  static const bool once = [] {
    EXPECT_THAT(RegisterQuantizer("test.sign", MakeSign), IsOk());
    EXPECT_THAT(RegisterQuantizer("test.null",
                                  [](const CustomQuantizerArgs&) {
                                    return std::unique_ptr<Quantizer>();
                                  }),
                IsOk());
    EXPECT_THAT(
        RegisterQuantizer("test.throws",
                          [](const CustomQuantizerArgs&)
                              -> absl::StatusOr<std::unique_ptr<Quantizer>> {
                            throw std::runtime_error("no luck");
                          }),
        IsOk());
    EXPECT_THAT(
        RegisterQuantizer(
            "test.throws_int",
            [](const CustomQuantizerArgs&)
                -> absl::StatusOr<std::unique_ptr<Quantizer>> { throw 7; }),
        IsOk());
    return true;
  }();
  (void)once;
}

std::string CustomRecipe(const std::string& factory,
                         const std::string& parameters = "") {
  return "defaults { all { custom { factory: \"" + factory + "\" " +
         parameters + " } } }";
}
// One field of a google.protobuf.Struct.
std::string Field(const std::string& key, const std::string& value) {
  return "parameters { fields { key: \"" + key + "\" value { " + value +
         " } } }";
}

absl::StatusOr<std::unique_ptr<Quantizer>> Make(OneModule& module) {
  return MakeQuantizer(module.state.get(), module.slots.input);
}

absl::Status MakeStatus(const std::string& recipe) {
  RegisterAll();
  OneModule module = FrozenModule(recipe);
  return Make(module).status();
}

TEST(CustomQuantizerTest, IsMadeByTheFactoryThatTheRecipeNames) {
  RegisterAll();
  OneModule module =
      FrozenModule(CustomRecipe("test.sign", Field("step", "number_value: 3")));
  auto quantizer = ValueOrDie(Make(module));
  EXPECT_EQ(quantizer->name(), "m/input");
  TestTensor x = TestTensor::Row(DType::kF32, {5.0f, -0.1f});
  QuantizedTensor q = ValueOrDie(quantizer->Quantize(x.view(), kStream));
  EXPECT_EQ(q.scaling, Scaling::kCustom);
  TestTensor out(DType::kF32, 1, 2);
  EXPECT_THAT(quantizer->Dequantize(q, out.view(), kStream), IsOk());
  EXPECT_EQ(out.at(0, 0), 3.0f);
  EXPECT_EQ(out.at(0, 1), -3.0f);

  x.Set(0, 0, -5.0f);
  EXPECT_THAT(quantizer->QuantizeInto(x.view(), &q, nullptr, kStream), IsOk());
  // Any quantizer can read it: the tensor says who does.
  OneModule other = FrozenModule(DelayedRecipe(""));
  auto stranger = ValueOrDie(Make(other));
  EXPECT_THAT(stranger->Dequantize(q, out.view(), kStream), IsOk());
  EXPECT_EQ(out.at(0, 0), -3.0f);
}

TEST(CustomQuantizerTest, WhatItLacksIsUnimplementedByName) {
  RegisterAll();
  OneModule module = FrozenModule(CustomRecipe("test.sign"));
  auto quantizer = ValueOrDie(Make(module));
  TestTensor x = TestTensor::Row(DType::kF32, {5.0f});
  const auto lacks = [](const std::string& what) {
    return StatusIs(absl::StatusCode::kUnimplemented,
                    AllOf(HasSubstr("m/input"), HasSubstr(what)));
  };
  EXPECT_THAT(quantizer->Calibrate(x.view(), kStream), lacks("Calibrate"));
  EXPECT_THAT(quantizer->Measure(x.view(), kStream), lacks("Measure"));
  quantizer->SetUsage(Usage::kColumnWise, true);
  EXPECT_THAT(quantizer->Quantize(x.view(), kStream), lacks("column-wise"));
  quantizer->SetUsage(Usage::kColumnWise, false);
  QuantizedTensor q = ValueOrDie(quantizer->Quantize(x.view(), kStream));
  EXPECT_THAT(q.UpdateUsage({true, true}, kStream),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("only the quantizer that made")));
}

TEST(CustomQuantizerTest, TensorsOfOthersAreRefused) {
  RegisterAll();
  OneModule module = FrozenModule(CustomRecipe("test.sign"));
  auto quantizer = ValueOrDie(Make(module));
  auto another = ValueOrDie(Make(module));
  OneModule delayed_module = FrozenModule(DelayedRecipe(""));
  auto delayed = ValueOrDie(Make(delayed_module));
  TestTensor x = TestTensor::Row(DType::kF32, {5.0f});
  QuantizedTensor theirs = ValueOrDie(another->Quantize(x.view(), kStream));
  QuantizedTensor fp8 = ValueOrDie(delayed->Quantize(x.view(), kStream));
  const auto refused = StatusIs(kInvalidArgument,
                                AllOf(HasSubstr("out:"), HasSubstr("m/input")));
  EXPECT_THAT(quantizer->QuantizeInto(x.view(), &theirs, nullptr, kStream),
              refused);
  EXPECT_THAT(quantizer->QuantizeInto(x.view(), &fp8, nullptr, kStream),
              refused);
  EXPECT_THAT(delayed->QuantizeInto(x.view(), &theirs, nullptr, kStream),
              refused);
}

TEST(CustomQuantizerTest, ParametersOfTheWrongTypeAreNamed) {
  EXPECT_THAT(
      MakeStatus(
          CustomRecipe("test.sign", Field("step", "string_value: \"x\""))),
      StatusIs(kInvalidArgument,
               AllOf(HasSubstr("m/input"), HasSubstr("\"test.sign\""),
                     HasSubstr("custom.parameters.step: got {\"step\":\"x\"}, "
                               "want a number"))));
  EXPECT_THAT(
      MakeStatus(CustomRecipe("test.sign", Field("note", "number_value: 1"))),
      StatusIs(kInvalidArgument, HasSubstr("want a text")));
  EXPECT_THAT(
      MakeStatus(CustomRecipe("test.sign", Field("loud", "number_value: 1"))),
      StatusIs(kInvalidArgument, HasSubstr("want a boolean")));
  EXPECT_THAT(
      MakeStatus(CustomRecipe("test.sign", Field("stpe", "number_value: 1"))),
      StatusIs(kInvalidArgument, AllOf(HasSubstr("custom.parameters.stpe"),
                                       HasSubstr("did you mean \"step\"?"))));
}

TEST(CustomQuantizerTest, ARequiredParameterIsMissed) {
  CustomQuantizerArgs args;
  args.name = "m/input";
  EXPECT_THAT(
      args.Number("bits"),
      StatusIs(kInvalidArgument, HasSubstr("custom.parameters.bits: missing")));
}

TEST(CustomQuantizerTest, AnUnknownFactoryListsThoseThatThereAre) {
  EXPECT_THAT(MakeStatus(CustomRecipe("test.sgin")),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("m/input"), HasSubstr("\"test.sgin\""),
                             HasSubstr("registered are \"test.null\", "
                                       "\"test.sign\""),
                             HasSubstr("did you mean \"test.sign\"?"))));
}

// All of a recipe's at once, whoever asks first.
TEST(CustomQuantizerTest, EveryUnknownFactoryOfARecipeIsNamed) {
  RegisterAll();
  const std::string text =
      "defaults { all { custom { factory: \"test.sign\" } } "
      "grad { custom { factory: \"test.sgin\" } } }\n"
      "rule { module: \"m\" weight { custom { factory: \"your.fp3\" } } }\n"
      "phase { from_step: 0 }\n"
      "phase { from_step: 9 input { custom { factory: \"your.fp3\" } }\n"
      "  rule { module: \"m\" grad { custom { factory: \"their.fp1\" } } } }";
  const auto all =
      AllOf(HasSubstr("custom.factory: not registered: \"test.sgin\" "
                      "(defaults.grad), did you mean \"test.sign\"?; "),
            HasSubstr("\"their.fp1\" (phase[1].rule[0].grad); \"your.fp3\" "
                      "(rule[0].weight, phase[1].input); registered are "),
            HasSubstr("\"test.sign\""));
  EXPECT_THAT(CheckFactories(ValueOrDie(Recipe::Parse(text, "r"))),
              StatusIs(absl::StatusCode::kNotFound, all));
  OneModule module = FrozenModule(text);
  CountingAllocator allocator;
  for (const Role role : kRoles) {
    EXPECT_THAT(MakeQuantizer(module.state.get(), module.slots.slot(role),
                              Usages(), &allocator),
                StatusIs(absl::StatusCode::kNotFound,
                         AllOf(all, HasSubstr(module.state->name(
                                        module.slots.slot(role))))));
  }
  EXPECT_EQ(allocator.allocations, 0);
  EXPECT_THAT(
      CheckFactories(ValueOrDie(Recipe::Parse(CustomRecipe("test.sign"), "r"))),
      IsOk());
  EXPECT_THAT(CheckFactories(ValueOrDie(Recipe::Load("nvfp4"))), IsOk());
}

TEST(CustomQuantizerTest, AFactoryThatFailsIsNamed) {
  EXPECT_THAT(MakeStatus(CustomRecipe("test.null")),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("\"test.null\""), HasSubstr("null"))));
  EXPECT_THAT(
      MakeStatus(CustomRecipe("test.throws")),
      StatusIs(absl::StatusCode::kInternal,
               AllOf(HasSubstr("\"test.throws\""), HasSubstr("no luck"))));
  EXPECT_THAT(MakeStatus(CustomRecipe("test.throws_int")),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("\"test.throws_int\" threw")));
}

TEST(RegisterQuantizerTest, NamesAreTakenOnce) {
  RegisterAll();
  EXPECT_THAT(
      RegisterQuantizer("test.sign", MakeSign),
      StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("\"test.sign\"")));
  EXPECT_THAT(RegisterQuantizer("", MakeSign),
              StatusIs(kInvalidArgument, HasSubstr("empty name")));
  EXPECT_THAT(RegisterQuantizer("test.nothing", nullptr),
              StatusIs(kInvalidArgument, HasSubstr("\"test.nothing\"")));
  EXPECT_THAT(RegisteredQuantizers(), Contains("test.sign"));
}

TEST(RegisterQuantizerTest, FromSeveralThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 50; ++i) {
        EXPECT_THAT(
            RegisterQuantizer(absl::StrCat("test.t", t, ".", i), MakeSign),
            IsOk());
        EXPECT_FALSE(RegisteredQuantizers().empty());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A phase of another scaling reads what the custom one has made.
TEST(CustomQuantizerTest, WorksInOnePhaseOfSeveral) {
  RegisterAll();
  OneModule module = FrozenModule(
      CustomRecipe("test.sign") +
      " phase { from_step: 0 } phase { from_step: 5 all { high_precision {} } "
      "}");
  auto quantizer = ValueOrDie(Make(module));
  TestTensor x = TestTensor::Row(DType::kF32, {-5.0f});
  QuantizedTensor q = ValueOrDie(quantizer->Quantize(x.view(), kStream));
  EXPECT_THAT(quantizer->QuantizeInto(x.view(), &q, nullptr, kStream), IsOk());
  ASSERT_THAT(module.state->SetStep(5), IsOk());
  TestTensor out(DType::kF32, 1, 1);
  EXPECT_THAT(quantizer->Dequantize(q, out.view(), kStream), IsOk());
  EXPECT_EQ(out.at(0, 0), -1.0f);
  EXPECT_THAT(quantizer->QuantizeInto(x.view(), &q, nullptr, kStream),
              StatusIs(kInvalidArgument, HasSubstr("phase")));
}

}  // namespace
}  // namespace scalekeeper
