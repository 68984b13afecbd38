#include "quantizer/inference_guard.h"

namespace scalekeeper {

thread_local int InferenceGuard::depth_ = 0;

}  // namespace scalekeeper
