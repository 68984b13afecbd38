#include "quantizer/grouped_tensor.h"

#include "absl/strings/str_cat.h"

namespace scalekeeper {

std::string Describe(const GroupedTensor& tensor) {
  return absl::StrCat(tensor.experts, " experts, ", Name(tensor.scaling), " ",
                      Name(tensor.format), " ", tensor.rows, "x", tensor.cols,
                      " on ", Name(tensor.device));
}

}  // namespace scalekeeper
