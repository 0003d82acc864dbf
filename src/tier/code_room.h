#pragma once
// Executable memory is capped by bytes: where it is full, the code that saves least per second and
// byte makes room for a region that would save more. Plans change first; the memory is free when
// the last run inside has left. A region that lost its code collects regret anew and may come back.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tier/core.h"
#include "tier/publishing.h"

namespace xc::tier {

/// All of it holds state.work.
class CodeRoom {
 public:
  CodeRoom(Core& core, Publishing& publishing) : core_(core), publishing_(publishing) {}
  enum class Made : uint8_t {
    kNone,    ///< nothing saves so little that it should go
    kNow,     ///< there is some now
    kComing,  ///< other programs are asked to let go
  };
  /// Lets go of the code that saves least per byte, if that is clearly less than `group` would.
  Made make_for(Program& program, ProgramState& state, Group& group);
  /// A group of the program's lets go of its code, unless it cannot do without.
  void evict(Program& program, ProgramState& state, Group& group, const std::string& why);

 private:
  /// Code of one kernel, which programs may share.
  struct Code {
    double saved_per_s = 0;
    int64_t bytes = 0;
    bool stays = false;                              ///< some user cannot do without
    std::vector<std::pair<StatePtr, Group*>> users;  ///< in all programs
  };
  std::map<const Kernel*, Code> code_in_use();

  Core& core_;
  Publishing& publishing_;
};

}  // namespace xc::tier
