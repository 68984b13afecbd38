// GroupedTensors as operands on a GPU: against one Matmul per expert there, and
// against the host.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "tests/gemm/matmul_cuda_testing.h"
#include "tests/gemm/moe_testing.h"

namespace scalekeeper {
namespace {

using MoeLayerCudaTest = MatmulCudaTest;

// G1
TEST_F(MoeLayerCudaTest, EqualsOneMatmulPerExpertAndTheHost) {
  for (const std::string& recipe : MoeRecipes()) {
    for (const std::vector<int64_t>& splits : MoeSplits()) {
      for (const int64_t padding : {0, 7}) {
        SCOPED_TRACE(absl::StrCat(recipe, ": ", absl::StrJoin(splits, " "),
                                  " + ", padding));
        MoeLayer layer(recipe, kGpu, splits, padding);
        MoeLayer host(recipe, kHost, splits, padding);
        for (int step = 0; step < 2; ++step) {
          const bool accumulate = step == 1;
          const MoeOutputs single = layer.Single(accumulate, Stream());
          const MoeOutputs want = host.Single(accumulate, Stream());
          EXPECT_EQ(single.y, want.y);
          EXPECT_EQ(single.dw, want.dw);
          for (const Usages usages :
               {Usages{true, true}, Usages{true, false}, Usages{false, true}}) {
            const MoeOutputs got = layer.Grouped(usages, accumulate, Stream());
            EXPECT_EQ(got.y, want.y) << usages.ToString();
            EXPECT_EQ(got.dx, want.dx) << usages.ToString();
            EXPECT_EQ(got.dw, want.dw) << usages.ToString();
          }
          layer.EndStep(Stream());
          host.EndStep(Stream());
        }
      }
    }
  }
}

}  // namespace
}  // namespace scalekeeper
