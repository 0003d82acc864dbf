#pragma once
// What an engine keeps between processes, in terms of programs and regions: keys and records of the
// persistent cache (src/cache). Nothing but load() fails; problems are handed out once by
// take_problems().
//
// Keys. Code: the builds of both libraries, the processor, the instruction set allowed, and the
// region's identity, of which these make the very same code. Profile: the same builds, the settings
// that choose kernels, and the program's graph. Host: the runtime's build and the processor.
//
// Thread-safe; may wait for the disk.

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/host_speed.h"
#include "cache/profile_record.h"
#include "cache/store.h"
#include "plan/fusion/region.h"
#include "tier/region_compiler.h"

namespace xc {

class Program;

/// Hash of a graph: its structure, small constants by content, and 64 bytes of each of up to 32 of
/// the large ones. Reading every weight would page in the whole file. Two models that differ only
/// in weights may therefore share a profile; that is harmless: code is found by what it is, not by
/// model, and how long kernels take does not depend on the weights.
Hash128 program_identity(const Graph& graph);

class Persistence {
 public:
  /// `compiler` outlives this.
  Persistence(RegionCompiler& compiler, const std::string& directory, int64_t max_bytes);

  std::optional<cache::ProfileRecord> profile(const Program& program);
  /// Merged with what another process kept meanwhile.
  void keep_profile(const Program& program, cache::ProfileRecord record);

  /// Of a region's code; empty when code of this compiler cannot be kept.
  std::string code_key(const Hash128& region);
  /// An earlier process's code, ready to run.
  struct Found {
    RegionCode code;                                       ///< without what its loops do
    std::vector<std::shared_ptr<const PhaseCode>> phases;  ///< one per phase of it
  };
  /// `spec`: the region's. Fails as RegionCompiler::place() does.
  std::optional<Found> load(const std::string& key, const StepSpec& spec);
  /// Only code that was found right: it is not verified again. `calls`: encode_region_code().
  void keep_code(const std::string& key, const std::string& subject, double compile_s,
                 std::string calls, const std::vector<std::shared_ptr<const PhaseCode>>& phases);
  void forget_code(const std::string& key);
  /// Code found wrong: no process tries it again for long.
  void condemn(const std::string& key, const std::string& subject);
  /// Whether code of that key killed a process, or was found wrong in one, not long ago.
  bool is_refused(const std::string& key) { return store_.is_refused(key); }
  /// Before code runs for the first time: cache/poison.h.
  cache::Permission begin_trial(const std::string& key, const std::string& subject);

  /// The host's figures as an earlier process measured them with care; looked for once.
  std::optional<HostSpeed> host();
  void keep_host(const HostSpeed& speed);

  std::vector<std::string> take_problems() { return store_.take_problems(); }

 private:
  std::string profile_key(const Program& program);
  const std::string& builds();

  RegionCompiler& compiler_;
  cache::Store store_;
  std::once_flag builds_once_;
  std::string builds_;  ///< of both libraries, and the processor; empty = nothing can be kept
};

}  // namespace xc
