// The subcommands, one source file each. See their --help for what they do.
#ifndef SCALEKEEPER_TOOLS_COMMANDS_H_
#define SCALEKEEPER_TOOLS_COMMANDS_H_

#include <ostream>
#include <string>

#include "absl/types/span.h"

namespace scalekeeper {

int RunLint(absl::Span<const std::string> args, std::ostream& out,
            std::ostream& err);
int RunExplain(absl::Span<const std::string> args, std::ostream& out,
               std::ostream& err);
int RunPresets(absl::Span<const std::string> args, std::ostream& out,
               std::ostream& err);
int RunDiff(absl::Span<const std::string> args, std::ostream& out,
            std::ostream& err);
int RunFingerprint(absl::Span<const std::string> args, std::ostream& out,
                   std::ostream& err);
int RunImport(absl::Span<const std::string> args, std::ostream& out,
              std::ostream& err);
int RunInspect(absl::Span<const std::string> args, std::ostream& out,
               std::ostream& err);
int RunQuantize(absl::Span<const std::string> args, std::ostream& out,
                std::ostream& err);
int RunSimulate(absl::Span<const std::string> args, std::ostream& out,
                std::ostream& err);
int RunAccuracy(absl::Span<const std::string> args, std::ostream& out,
                std::ostream& err);
int RunRecommend(absl::Span<const std::string> args, std::ostream& out,
                 std::ostream& err);
int RunTrace(absl::Span<const std::string> args, std::ostream& out,
             std::ostream& err);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TOOLS_COMMANDS_H_
