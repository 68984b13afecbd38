#include "quantizer/grouped_quantizer.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "amax/amax_group.h"
#include "base/device_memory.h"
#include "base/status_macros.h"
#include "quantizer/dequantize.h"
#include "quantizer/inference_guard.h"

namespace scalekeeper {
namespace {

using kernels::GroupedSlot;
using kernels::GroupedSpec;

absl::Status CheckSlots(const RecipeState& state,
                        const std::vector<SlotId>& slots) {
  if (slots.empty()) {
    return absl::InvalidArgumentError(
        "slots: got none, want one slot per expert");
  }
  for (const SlotId slot : slots) {
    if (slot.value < 0 ||
        static_cast<size_t>(slot.value) >= state.slot_count()) {
      return absl::InvalidArgumentError(
          absl::StrCat("slots: got ", slot.value, ", want 0..",
                       state.slot_count(), " exclusive"));
    }
    const std::vector<Policy>& first = state.policies(slots.front());
    const std::vector<Policy>& own = state.policies(slot);
    for (size_t phase = 0; phase < own.size(); ++phase) {
      if (own[phase] == first[phase]) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "slots: ", state.name(slot), " is {", Describe(own[phase]), "}, ",
          state.name(slots.front()), " is {", Describe(first[phase]),
          "}: want one policy for all experts"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<GroupedQuantizer>> GroupedQuantizer::Create(
    RecipeState* state, std::vector<SlotId> slots, Usages usages,
    Allocator* allocator) {
  if (state == nullptr) {
    return absl::InvalidArgumentError("state: got a null pointer");
  }
  if (!state->frozen()) {
    return absl::FailedPreconditionError(
        "GroupedQuantizer: the RecipeState is not frozen; call Freeze first");
  }
  SK_RETURN_IF_ERROR(CheckSlots(*state, slots));
  if (!usages.row_wise && !usages.column_wise) {
    return absl::InvalidArgumentError(
        absl::StrCat("usages: got ", usages.ToString(),
                     ", want row_wise, column_wise or both"));
  }
  const Device device = state->device();
  if (allocator == nullptr) {
    SK_ASSIGN_OR_RETURN(allocator, DefaultAllocator(device));
  }
  std::vector<GroupedSlot> words;
  for (const SlotId slot : slots) {
    const SlotView view = state->View(slot);
    words.push_back({view.amax, view.scale, view.measure});
  }
  const size_t bytes = words.size() * sizeof(GroupedSlot);
  SK_ASSIGN_OR_RETURN(Buffer table, Buffer::Allocate(allocator, bytes));
  SK_RETURN_IF_ERROR(
      CopyFromHost(device, table.data(), words.data(), bytes, Stream{}));
  return absl::WrapUnique(new GroupedQuantizer(state, std::move(slots), usages,
                                               allocator, std::move(table)));
}

absl::StatusOr<const Policy*> GroupedQuantizer::ActivePolicy() const {
  if (state_->generation() != generation_) {
    return absl::FailedPreconditionError(absl::StrCat(
        state_->name(slots_.front()),
        ": the RecipeState was changed since this GroupedQuantizer was made; "
        "make it anew"));
  }
  const Policy& policy = state_->policy(slots_.front());
  if (policy.scaling == Scaling::kDelayed ||
      policy.scaling == Scaling::kCurrent) {
    return &policy;
  }
  return absl::UnimplementedError(absl::StrCat(
      state_->name(slots_.front()), ": no grouped quantize with scaling ",
      Name(policy.scaling), ", want delayed or current"));
}

absl::StatusOr<GroupedTensor> GroupedQuantizer::MakeEmpty(int64_t rows,
                                                          int64_t cols,
                                                          Stream stream) const {
  SK_ASSIGN_OR_RETURN(const Policy* policy, ActivePolicy());
  if (rows < 0 || cols < 0 || (cols > 0 && rows > (int64_t{1} << 48) / cols)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape: got ", rows, "x", cols,
                     ", want extents >= 0 and at most 2^48 elements"));
  }
  GroupedTensor tensor;
  tensor.rows = rows;
  tensor.cols = cols;
  tensor.experts = experts();
  tensor.scaling = policy->scaling;
  tensor.format = policy->format;
  tensor.device = state_->device();
  const size_t codes = static_cast<size_t>(rows * cols);
  const size_t count = slots_.size();
  const bool infers = state_->inference() || InferenceGuard::active();
  const auto allocate = [this](size_t bytes, Buffer* buffer) -> absl::Status {
    SK_ASSIGN_OR_RETURN(*buffer, Buffer::Allocate(allocator_, bytes));
    return absl::OkStatus();
  };
  if (usages_.row_wise) {
    SK_RETURN_IF_ERROR(allocate(codes, &tensor.row_wise));
  }
  if (usages_.column_wise && !(infers && usages_.row_wise)) {
    SK_RETURN_IF_ERROR(allocate(codes, &tensor.column_wise));
  }
  SK_RETURN_IF_ERROR(allocate(
      count * kernels::kGroupedScaleStride * sizeof(float), &tensor.scale_inv));
  SK_RETURN_IF_ERROR(allocate((count + 1) * sizeof(int64_t), &tensor.offsets));
  SK_RETURN_IF_ERROR(allocate(count * sizeof(uint32_t), &tensor.amaxes));
  // Read before it is quantized: no rows.
  for (Buffer* buffer : {&tensor.scale_inv, &tensor.offsets, &tensor.amaxes}) {
    SK_RETURN_IF_ERROR(
        FillBytes(tensor.device, buffer->data(), 0, buffer->size(), stream));
  }
  return tensor;
}

GroupedSpec GroupedQuantizer::SpecOf(const Policy& policy,
                                     const GroupedTensor& tensor) const {
  using Kind = kernels::CastScale::Kind;
  GroupedSpec spec;
  spec.experts = experts();
  spec.slots = table_.as<GroupedSlot>();
  spec.offsets = tensor.offsets.as<int64_t>();
  spec.kind =
      policy.scaling == Scaling::kDelayed ? Kind::kDelayed : Kind::kCurrent;
  spec.measures = spec.kind == Kind::kDelayed &&
                  policy.delayed.first_step == FirstStep::kMeasure;
  spec.margin = policy.delayed.margin;
  spec.current.format_max = FormatMax(policy.format);
  spec.current.power_2_scale = policy.current.power_2_scale;
  spec.current.amax_epsilon = policy.current.amax_epsilon;
  spec.format = policy.format;
  return spec;
}

absl::Status GroupedQuantizer::QuantizeInto(ConstTensorView x,
                                            const int64_t* counts,
                                            GroupedTensor* out, Stream stream) {
  SK_ASSIGN_OR_RETURN(const Policy* policy, ActivePolicy());
  const Device device = state_->device();
  SK_RETURN_IF_ERROR(ValidateView(x, "x"));
  SK_RETURN_IF_ERROR(CheckHighPrecision(x, "x"));
  if (x.device != device) {
    return absl::InvalidArgumentError(absl::StrCat(
        "x: got device ", Name(x.device), ", want ", Name(device)));
  }
  if (counts == nullptr || out == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        counts == nullptr ? "counts" : "out", ": got a null pointer"));
  }
  if (!x.empty()) {
    SK_RETURN_IF_ERROR(known_x_.Check(device, x.data, "x"));
  }
  SK_RETURN_IF_ERROR(known_counts_.Check(device, counts, "counts"));
  if (out->rows != x.rows || out->cols != x.cols || out->experts != experts() ||
      out->scaling != policy->scaling || out->format != policy->format ||
      out->device != device || out->offsets.size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "out: got ", Describe(*out), ", want ", experts(), " experts, ",
        Name(policy->scaling), " ", Name(policy->format), " ", x.rows, "x",
        x.cols, " on ", Name(device), ": make it with MakeEmpty"));
  }
  const size_t count = slots_.size();
  AmaxGroup* const group = state_->amax_group(AmaxGroupOf(*policy));
  SK_RETURN_IF_ERROR(kernels::GroupedOffsets(
      counts, experts(), x.rows, out->offsets.as<int64_t>(), device, stream));
  GroupedSpec spec = SpecOf(*policy, *out);
  spec.amaxes = out->amaxes.as<uint32_t>();
  if (group != nullptr) {
    SK_ASSIGN_OR_RETURN(spec.amaxes, group->Words(count, stream));
  } else {
    SK_RETURN_IF_ERROR(
        FillBytes(device, spec.amaxes, 0, count * sizeof(uint32_t), stream));
  }
  if (spec.measures || spec.kind == kernels::CastScale::Kind::kCurrent) {
    SK_RETURN_IF_ERROR(kernels::GroupedAmax(x, spec, stream));
  }
  if (group != nullptr) SK_RETURN_IF_ERROR(group->ReduceMax(count, stream));
  kernels::GroupedOutput output;
  output.row_wise = out->row_wise.as<uint8_t>();
  output.column_wise = out->column_wise.as<uint8_t>();
  output.scale_inv = out->scale_inv.as<float>();
  output.observe = !state_->inference() && !InferenceGuard::active();
  return kernels::GroupedCast(x, spec, output, stream);
}

absl::Status GroupedQuantizer::Dequantize(const GroupedTensor& q,
                                          TensorView out, Stream stream) const {
  SK_RETURN_IF_ERROR(CheckHighPrecision(out, "out"));
  SK_RETURN_IF_ERROR(ValidateOutputView(out, "out"));
  if (out.rows != q.rows || out.cols != q.cols || out.device != q.device ||
      q.offsets.size() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("out: got ", out.rows, "x", out.cols, " on ",
                     Name(out.device), ", want that of q: ", Describe(q)));
  }
  GroupedSpec spec;
  spec.experts = q.experts;
  spec.offsets = q.offsets.as<int64_t>();
  spec.format = q.format;
  return kernels::GroupedDecode(spec, q.row_wise.as<uint8_t>(),
                                q.column_wise.as<uint8_t>(),
                                q.scale_inv.as<float>(), out, stream);
}

}  // namespace scalekeeper
