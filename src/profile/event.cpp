#include "profile/event.h"

namespace xc {

std::string_view name(EventKind kind) {
  switch (kind) {
    case EventKind::kCandidate:
      return "candidate";
    case EventKind::kCompiled:
      return "compiled";
    case EventKind::kRefused:
      return "refused";
    case EventKind::kVerified:
      return "verified";
    case EventKind::kMismatch:
      return "mismatch";
    case EventKind::kTrial:
      return "trial";
    case EventKind::kAccepted:
      return "accepted";
    case EventKind::kRejected:
      return "rejected";
    case EventKind::kRolledBack:
      return "rolled_back";
    case EventKind::kPrepared:
      return "prepared";
    case EventKind::kJitDisabled:
      return "jit_disabled";
    case EventKind::kLoaded:
      return "loaded";
    case EventKind::kCache:
      return "cache";
  }
  return "unknown";
}

}  // namespace xc
