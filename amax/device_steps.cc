#include "amax/device_steps.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "amax/annotate.h"
#include "amax/exchange_agreement.h"
#include "amax/kernels_host.h"
#include "amax/update.h"
#include "base/device_memory.h"
#include "base/status_macros.h"

namespace scalekeeper {
namespace {

constexpr uint32_t kMaxDeviceGroups = 256;  // one bit each in a block's memory
constexpr uint32_t kMaxDeviceSlots = 65535 * kBlockSlots;  // 16-bit block count

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceSteps>> DeviceSteps::Create(
    const Device& device, Allocator* allocator, const ArenaLayout& layout,
    const UpdatePolicy& update, Arena* mirror, std::vector<Group> groups) {
  const ArenaView& view = mirror->view();
  if (view.groups > kMaxDeviceGroups || view.slots > kMaxDeviceSlots) {
    return absl::InvalidArgumentError(
        absl::StrCat("amax state on ", Name(device), ": got ", view.slots,
                     " slots in ", view.groups, " groups, want at most ",
                     kMaxDeviceSlots, " in ", kMaxDeviceGroups));
  }
  std::unique_ptr<DeviceSteps> steps(new DeviceSteps);
  steps->device_ = device;
  steps->update_ = update;
  if (steps->stale()) {
    SK_ASSIGN_OR_RETURN(steps->side_, SideStream::Create(device));
  }
  steps->mirror_ = mirror;
  int device_groups = 0;
  for (Group& group : groups) {
    DeviceGroup* const queued = group.communicator->device_group();
    if (queued != nullptr && queued->device() != device) {
      return absl::InvalidArgumentError(absl::StrCat(
          "options.groups[\"", group.name, "\"]: the communicator is on ",
          Name(queued->device()), ", the state on ", Name(device)));
    }
    if (queued != nullptr && ++device_groups > kMaxAbortWords) {
      return absl::InvalidArgumentError(
          absl::StrCat("options.groups: got more than ", kMaxAbortWords,
                       " communicators between GPUs, want at most that many"));
    }
    // Alone there is nothing to exchange.
    if (queued != nullptr && group.communicator->size() == 1) continue;
    view.group_descriptors[group.index].exchanged = 1;
    steps->groups_.push_back(std::move(group));
  }
  SK_ASSIGN_OR_RETURN(Arena arena, Arena::Create(allocator, layout));
  steps->arena_ = std::make_unique<Arena>(std::move(arena));
  // Copies of the whole arena read all of it.
  SK_RETURN_IF_ERROR(FillBytes(device, steps->arena_->view().amax, 0,
                               steps->arena_->bytes(), Stream{}));
  SK_ASSIGN_OR_RETURN(steps->report_,
                      MappedWords::Allocate(device, kStepReportWords + 1));
  steps->report_.Store(kStepReportWords, 1);
  steps->staged_.resize(*std::max_element(layout.message_words.begin(),
                                          layout.message_words.end()));
  SK_RETURN_IF_ERROR(steps->Store(Arena::Extent::kHead, Stream{}));
  return steps;
}

DeviceSteps::~DeviceSteps() {
  const bool over = WaitForDevice().ok();
  if (mailboxes_ != nullptr && !Poll().ok()) mailboxes_->Abandon();
  if (over) return;
  // What still runs uses all this.
  (void)arena_.release();
  (void)mailboxes_.release();
  report_.Abandon();
  side_.Abandon();
}

absl::Status DeviceSteps::WaitForDevice() {
  absl::Status status;
  bool waited = false;
  for (const Group& group : groups_) {
    DeviceGroup* const queued = group.communicator->device_group();
    if (queued == nullptr) continue;
    // The last answer counts: what kept one group waiting may be another's,
    // which is given up later.
    status = queued->WaitForDevice();
    if (!status.ok()) {
      status = Annotate(status, absl::StrCat("group \"", group.name, "\""));
    }
    waited = true;
  }
  return waited ? status : SynchronizeDevice(device_);
}

std::string DeviceSteps::GridObstacle(int ranks, Exchange wanted) const {
  const uint32_t slots = arena_->view().slots;
  const absl::StatusOr<uint32_t> fit =
      FusedStepBlocks(device_, static_cast<uint32_t>(ranks));
  if (!fit.ok()) return std::string(fit.status().message());
  const uint32_t most = wanted == Exchange::kFused ? *fit : *fit / 2;
  if (BlockCount(slots) <= most) return "";
  return absl::StrCat(
      slots, " slots, want at most ", uint64_t{most} * kBlockSlots,
      wanted == Exchange::kFused
          ? ": more threads than run at once would wait for other ranks"
          : ": two states that fill the GPU could wait for each other");
}

std::string DeviceSteps::FusedObstacle(Exchange wanted) const {
  if (stale()) return "update.staleness is 1";
  if (groups_.size() != 1) {
    return absl::StrCat(groups_.size(), " groups are reduced, want one");
  }
  Communicator* const communicator = groups_[0].communicator;
  DeviceGroup* const group = communicator->device_group();
  if (group == nullptr) return "the communicator works in host memory";
  const std::string obstacle = group->MailboxObstacle();
  return obstacle.empty() ? GridObstacle(communicator->size(), wanted)
                          : obstacle;
}

absl::Status DeviceSteps::MakeMailboxes(Communicator* communicator,
                                        Exchange wanted) {
  const GroupDescriptor& place = Descriptor(groups_[0]);
  absl::StatusOr<std::unique_ptr<MailboxMemory>> made =
      communicator->device_group()->MakeMailboxes(
          place.control_offset - place.amax_offset + kControlWords);
  uint32_t failed = made.ok() ? 0 : 1;
  SK_RETURN_IF_ERROR(
      communicator->AllReduceMax(absl::MakeSpan(&failed, 1), Stream{}));
  if (failed == 0) {
    mailboxes_ = *std::move(made);
    return absl::OkStatus();
  }
  obstacle_ =
      made.ok() ? "another rank cannot" : std::string(made.status().message());
  if (wanted != Exchange::kFused) return absl::OkStatus();
  if (!made.ok()) return made.status();
  return absl::FailedPreconditionError(
      absl::StrCat("options.exchange: got kFused: ", obstacle_));
}

// Of every group, also after an error: its ranks must not wait.
absl::Status DeviceSteps::AgreeOnExchange(
    const std::map<std::string, Communicator*>& bound, Exchange wanted,
    DeviceSteps* steps) {
  absl::Status status;
  for (const auto& [name, communicator] : bound) {
    if (communicator->device_group() == nullptr || communicator->size() == 1) {
      continue;
    }
    ExchangeWish wish;
    wish.wanted = wanted;
    wish.on_gpu = steps != nullptr;
    wish.obstacle =
        steps == nullptr ? "the state is in host memory"
        : bound.size() != 1
            ? absl::StrCat(bound.size(), " groups are bound, want one")
            : steps->FusedObstacle(wanted);
    const absl::StatusOr<ExchangeChoice> choice =
        AgreeOnWish(communicator, wish);
    absl::Status agreed = choice.status();
    if (choice.ok() && steps != nullptr) {
      steps->obstacle_ = choice->obstacle;
      if (choice->fused) agreed = steps->MakeMailboxes(communicator, wanted);
    }
    if (!agreed.ok() && status.ok()) {
      status = Annotate(agreed, absl::StrCat("Freeze, group \"", name, "\""));
    }
  }
  if (status.ok() && steps != nullptr) status = steps->WarmUp();
  return status;
}

DeviceSteps::Path DeviceSteps::ChoosePath() const {
  bool any = false, staged = false, direct = true;
  for (const Group& group : groups_) {
    const GroupDescriptor& descriptor = Descriptor(group);
    if (descriptor.members == 0) continue;
    any = true;
    direct = direct && descriptor.direct != 0;
    staged = staged || group.communicator->device_group() == nullptr;
  }
  if (!any) return stale() ? Path::kPacked : Path::kAlone;
  if (staged) return Path::kStaged;
  if (!direct || stale()) return Path::kPacked;
  return mailboxes_ != nullptr ? Path::kFused : Path::kReduced;
}

// Connections are made by a first reduction of each size; a graph cannot.
absl::Status DeviceSteps::WarmUp() {
  const ArenaView& view = arena_->view();
  for (const Group& group : groups_) {
    DeviceGroup* const queued = group.communicator->device_group();
    const GroupDescriptor& descriptor = Descriptor(group);
    if (queued == nullptr || descriptor.members == 0) continue;
    const std::string what = absl::StrCat("Freeze, group \"", group.name, "\"");
    SK_RETURN_IF_ERROR(
        queued->QueueMax(view.amax + descriptor.amax_offset,
                         view.messages + descriptor.message_offset,
                         descriptor.members + kControlWords, Stream{}, what));
    SK_RETURN_IF_ERROR(queued->Wait(Stream{}));
    SK_RETURN_IF_ERROR(Annotate(queued->Poll(), what));
  }
  return absl::OkStatus();
}

StepGuard DeviceSteps::guard() const {
  StepGuard guard;
  int next = 0;
  for (const Group& group : groups_) {
    DeviceGroup* const queued = group.communicator->device_group();
    if (queued != nullptr) guard.abort[next++] = queued->abort_word();
  }
  guard.report = report_.device_address();
  guard.layout = mirror_->view().step->layout;
  return guard;
}

absl::Status DeviceSteps::Stage(const Group& group, Stream stream) {
  const GroupDescriptor& descriptor = Descriptor(group);
  const size_t count = size_t{descriptor.members} + kControlWords;
  uint32_t* const message = arena_->view().messages + descriptor.message_offset;
  const absl::Span<uint32_t> words = absl::MakeSpan(staged_).subspan(0, count);
  SK_RETURN_IF_ERROR(CopyToHost(device_, words.data(), message,
                                count * sizeof(uint32_t), stream));
  SK_RETURN_IF_ERROR(group.communicator->AllReduceMax(words, stream));
  return CopyFromHost(device_, message, words.data(), count * sizeof(uint32_t),
                      stream);
}

absl::Status DeviceSteps::QueueReductions(Path path, Stream stream,
                                          int64_t* collectives) {
  const ArenaView view = StepView();
  for (const Group& group : groups_) {
    const GroupDescriptor& descriptor = Descriptor(group);
    if (descriptor.members == 0) continue;
    DeviceGroup* const queued = group.communicator->device_group();
    uint32_t* const message = view.messages + descriptor.message_offset;
    const uint32_t* const send =
        path == Path::kReduced ? view.amax + descriptor.amax_offset : message;
    absl::Status status =
        queued != nullptr
            ? queued->QueueMax(send, message,
                               size_t{descriptor.members} + kControlWords,
                               stream, "EndStep")
            : Stage(group, stream);
    if (!status.ok()) {
      return Break(
          Annotate(status, absl::StrCat("group \"", group.name, "\"")));
    }
    ++*collectives;
  }
  return absl::OkStatus();
}

absl::Status DeviceSteps::Queue(const uint32_t* skip_flag, Stream stream,
                                int64_t* collectives) {
  const ArenaView& view = arena_->view();
  const bool keeps = update_.interval > 1;
  if (keeps) {
    SK_RETURN_IF_ERROR(
        KeepSkip(device_, view, update_.interval, skip_flag, guard(), stream));
    skip_flag = view.kept_skip;
  }
  const Path path = ChoosePath();
  if (path == Path::kFused) {
    SK_RETURN_IF_ERROR(FusedStep(device_, view, Descriptor(groups_[0]),
                                 groups_[0].index, mailboxes_->mailboxes(),
                                 skip_flag, guard(), stream));
    ++*collectives;
  } else {
    const bool packs = path == Path::kPacked || path == Path::kStaged;
    if (packs) {
      SK_RETURN_IF_ERROR(PackMessages(device_, view, skip_flag, stream));
    } else if (path == Path::kReduced && skip_flag != nullptr) {
      SK_RETURN_IF_ERROR(RaiseSkipWords(device_, view, skip_flag, stream));
    }
    SK_RETURN_IF_ERROR(QueueReductions(path, stream, collectives));
    SK_RETURN_IF_ERROR(
        UpdateSlots(device_, view,
                    packs ? UpdateSource::kMessages : UpdateSource::kExchanged,
                    skip_flag, guard(), stream));
  }
  return keeps ? ForgetSkip(stream) : absl::OkStatus();
}

absl::Status DeviceSteps::ForgetSkip(Stream stream) {
  return FillBytes(device_, arena_->view().kept_skip, 0, sizeof(uint32_t),
                   stream);
}

absl::Status DeviceSteps::QueueCount(bool due, const uint32_t* skip_flag,
                                     Stream stream) {
  return CountStep(device_, StepView(), update_.interval, due, skip_flag,
                   guard(), stream);
}

absl::Status DeviceSteps::QueueHeldUpdate(Stream stream, int64_t* collectives) {
  SK_RETURN_IF_ERROR(JoinReductions(stream));
  if (!reduced_) {
    SK_RETURN_IF_ERROR(PackMessages(device_, StepView(), nullptr, stream));
    SK_RETURN_IF_ERROR(QueueReductions(ChoosePath(), stream, collectives));
  }
  reduced_ = false;
  return UpdateSlots(device_, StepView(), UpdateSource::kMessages,
                     /*skip_flag=*/nullptr, guard(), stream);
}

absl::Status DeviceSteps::QueueKeep(const uint32_t* skip_flag, Stream stream) {
  // The step has been counted: whether an update is due is not asked.
  return KeepSkip(device_, arena_->view(), /*interval=*/1, skip_flag, guard(),
                  stream);
}

absl::Status DeviceSteps::QueueHold(const uint32_t* skip_flag, Stream stream,
                                    int64_t* collectives) {
  const ArenaView& view = arena_->view();
  const bool keeps = update_.interval > 1;
  if (keeps) {
    SK_RETURN_IF_ERROR(QueueKeep(skip_flag, stream));
    skip_flag = view.kept_skip;
  }
  SK_RETURN_IF_ERROR(HoldSlots(device_, view, skip_flag, guard(), stream));
  if (keeps) SK_RETURN_IF_ERROR(ForgetSkip(stream));
  SK_RETURN_IF_ERROR(PackMessages(device_, StepView(), nullptr, stream));
  reduced_ = true;
  const Path path = ChoosePath();
  if (path == Path::kStaged) return QueueReductions(path, stream, collectives);
  SK_RETURN_IF_ERROR(side_.Fork(stream));
  to_join_ = true;
  return QueueReductions(path, side_.stream(), collectives);
}

absl::Status DeviceSteps::JoinReductions(Stream stream) {
  if (!to_join_) return absl::OkStatus();
  SK_RETURN_IF_ERROR(side_.Join(stream));
  to_join_ = false;
  return absl::OkStatus();
}

absl::Status DeviceSteps::CheckCapture(bool held) const {
  if (!stale() || (held && reduced_ && !to_join_)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "EndStep in a CUDA graph with update.staleness: 1: want a step that "
      "ended "
      "before the capture, and JoinReduction after it");
}

absl::Status DeviceSteps::Break(absl::Status status) {
  if (broken_.ok()) broken_ = std::move(status);
  return broken_;
}

absl::Status DeviceSteps::Poll() {
  if (!broken_.ok()) return broken_;
  if (report_.Load(kReportTimedOut) != 0) {
    std::vector<std::string> missing;
    for (int r = 0; r < kMaxMailboxRanks; ++r) {
      if (report_.Load(kReportMissingRank + r) != 0) {
        missing.push_back(absl::StrCat(r));
      }
    }
    const Mailboxes& boxes = mailboxes_->mailboxes();
    return Break(absl::DeadlineExceededError(absl::StrCat(
        "group \"", groups_[0].name, "\": exchange of ",
        Descriptor(groups_[0]).members, " amaxes: ",
        missing.size() == 1 ? "rank " : "ranks ", absl::StrJoin(missing, ", "),
        " of ", boxes.ranks, " did not come within ",
        static_cast<double>(boxes.deadline_ns) * 1e-9, " s")));
  }
  for (const Group& group : groups_) {
    DeviceGroup* const queued = group.communicator->device_group();
    if (queued == nullptr) continue;
    const absl::Status status = queued->Poll();
    if (!status.ok()) {
      return Break(
          Annotate(status, absl::StrCat("group \"", group.name, "\"")));
    }
  }
  if (report_.Load(kReportAborted) != 0) {
    return Break(absl::AbortedError(
        "a reduction was given up; the update that was queued behind it did "
        "nothing"));
  }
  return absl::OkStatus();
}

absl::Status DeviceSteps::Warning() const {
  if (report_.Load(kReportDisagree) != 0) {
    return absl::DataLossError(
        "the ranks of a group do not agree on step, phase and scales; nothing "
        "was updated. Bring all of them to one state, e.g. with "
        "RestorePrevious or from a checkpoint");
  }
  if (report_.Load(kReportLayout) != 0) {
    return absl::FailedPreconditionError(
        "a graph that was captured in another phase was replayed; it did "
        "nothing. Capture it anew after a change of phase");
  }
  if (report_.Load(kReportInterval) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a graph that was captured at another step of update.interval ",
        update_.interval,
        " was replayed: it updated when no update was due, and dropped what "
        "was "
        "observed, or did not when one was. Capture a graph for each step of "
        "the interval, or all of them in one"));
  }
  return absl::OkStatus();
}

void DeviceSteps::ClearReports() {
  report_.Store(kReportDisagree, 0);
  report_.Store(kReportLayout, 0);
  report_.Store(kReportInterval, 0);
}

absl::Status DeviceSteps::Wait(Stream stream) {
  SK_RETURN_IF_ERROR(JoinReductions(stream));
  for (const Group& group : groups_) {
    DeviceGroup* const queued = group.communicator->device_group();
    if (queued == nullptr) continue;
    SK_RETURN_IF_ERROR(Annotate(queued->Wait(stream),
                                absl::StrCat("group \"", group.name, "\"")));
  }
  return Synchronize(device_, stream);
}

absl::Status DeviceSteps::Fetch(Arena::Extent extent, Stream stream) {
  SK_RETURN_IF_ERROR(Wait(stream));
  SK_RETURN_IF_ERROR(mirror_->CopyFrom(*arena_, extent, stream));
  const ArenaView& view = mirror_->view();
  const bool torn =
      view.step->failed != 0 &&
      std::any_of(
          view.block_sequences, view.block_sequences + BlockCount(view.slots),
          [&](uint32_t sequence) { return sequence != view.step->sequence; });
  if (!torn) return absl::OkStatus();
  if (extent != Arena::Extent::kAll) {
    SK_RETURN_IF_ERROR(mirror_->CopyFrom(*arena_, Arena::Extent::kAll, stream));
  }
  RepairSlotsHost(HeldView(view));
  RehashScalesHost(HeldView(view));
  return Store(Arena::Extent::kAll, stream);
}

absl::Status DeviceSteps::Store(Arena::Extent extent, Stream stream) {
  return arena_->CopyFrom(*mirror_, extent, stream);
}

std::string DeviceSteps::Describe() const {
  switch (ChoosePath()) {
    case Path::kAlone:
      return "one kernel, no other rank";
    case Path::kFused:
      return absl::StrCat("one kernel that exchanges over NVLink with ",
                          mailboxes_->mailboxes().ranks, " ranks");
    case Path::kReduced:
    case Path::kPacked:
      if (stale()) {
        return "pack, all-reduce beside the next step, update one EndStep "
               "later";
      }
      return absl::StrCat(
          ChoosePath() == Path::kPacked ? "pack, all-reduce, update"
                                        : "all-reduce, update",
          obstacle_.empty()
              ? ""
              : absl::StrCat(" (not one kernel: ", obstacle_, ")"));
    case Path::kStaged:
      return "pack, reduction in host memory, update";
  }
  return "";
}

}  // namespace scalekeeper
