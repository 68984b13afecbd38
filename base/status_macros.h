// Early return for absl::Status and absl::StatusOr (Abseil 20220623 has none).
//
// Example:
//   absl::Status Save(const State& state) {
//     SK_ASSIGN_OR_RETURN(std::string bytes, Serialize(state));
//     SK_RETURN_IF_ERROR(Write(bytes));
//     return absl::OkStatus();
//   }
#ifndef SCALEKEEPER_BASE_STATUS_MACROS_H_
#define SCALEKEEPER_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define SK_RETURN_IF_ERROR(expression)                            \
  do {                                                            \
    if (absl::Status sk_status = (expression); !sk_status.ok()) { \
      return sk_status;                                           \
    }                                                             \
  } while (false)

#define SK_STATUS_CONCAT_INNER_(a, b) a##b
#define SK_STATUS_CONCAT_(a, b) SK_STATUS_CONCAT_INNER_(a, b)

#define SK_ASSIGN_OR_RETURN(declaration, expression)                    \
  SK_ASSIGN_OR_RETURN_IMPL_(SK_STATUS_CONCAT_(sk_status_or_, __LINE__), \
                            declaration, expression)
// A declaration cannot be put in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define SK_ASSIGN_OR_RETURN_IMPL_(temporary, declaration, expression) \
  auto temporary = (expression);                                      \
  if (!temporary.ok()) return std::move(temporary).status();          \
  declaration = *std::move(temporary)
// NOLINTEND(bugprone-macro-parentheses)

#endif  // SCALEKEEPER_BASE_STATUS_MACROS_H_
