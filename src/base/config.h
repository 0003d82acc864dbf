#pragma once
// The one table of knobs. `xc config`, the documentation and the environment reader come from it.
// Zero (or empty) always means the default, so that zeroed option structs are valid.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace xc {

enum class JitMode : uint8_t { kAuto = 0, kOff = 1, kSync = 2, kFreeze = 3 };
enum class Numerics : uint8_t { kTolerant = 0, kFast = 1, kStrict = 2 };

/// Settings of one engine and, but for those marked in the table, overridden per session.
struct Config {
  int64_t threads = 0;   ///< workers, the caller included; 0 = all cores this process may use
  int64_t jit = 0;       ///< JitMode
  int64_t numerics = 0;  ///< Numerics
  int64_t code_cache_bytes = 0;     ///< executable memory cap
  int64_t bound_cache_bytes = 0;    ///< cap of bound plans per session; the last four stay
  int64_t max_memory_bytes = 0;     ///< of one run: arena, scratch, results; 0 = no cap
  int64_t compile_cpu_percent = 0;  ///< CPU share of background compilation
  int64_t copy_weights = 0;         ///< 1 = read the model file instead of mapping it
  int64_t isa = 0;                  ///< 0 best, 1 baseline, 2 avx2, 3 avx512: caps generated code
  int64_t force_swap = 0;           ///< testing: publish a plan at every run
  int64_t verify_passes = 0;        ///< verify the graph after each pass
  int64_t poison_arena = 0;         ///< testing: fill arenas with NaN patterns before each run
  int64_t rules = 0;                ///< 0 on, 1 = pattern rules off
  int64_t fusion = 0;               ///< 0 on, 1 = no fused regions
  int64_t trace_compiles = 0;  ///< keep the loop IR and assembly of compiled regions for explain
  std::string cache_dir{};     ///< persistent cache; empty = off
  int64_t kernels = 0;         ///< 0 best, 1 = every step on its reference kernel
  int64_t layouts = 0;         ///< 0 on, 1 = every value row-major, in its own memory
  int64_t trace_steps = 0;     ///< steps of sampled runs kept for a trace; 0 = none
  int64_t cache_bytes = 0;     ///< cap of the persistent cache's files
  int64_t post_ops = 0;        ///< 0 on, 1 = a step of the base plan for every operator
  int64_t winograd = 0;        ///< 0 on, 1 = convolutions add up every window on its own
  int64_t bands = 0;           ///< 0 on, 1 = off, 2 = always: convolutions band by band (Bands)

  JitMode jit_mode() const { return static_cast<JitMode>(jit); }
  void set_jit(JitMode mode) { jit = static_cast<int64_t>(mode); }
  Numerics numerics_mode() const { return static_cast<Numerics>(numerics); }
  void set_numerics(Numerics mode) { numerics = static_cast<int64_t>(mode); }
  bool fuses() const { return fusion == 0; }
};

struct ConfigRow {
  std::string_view name;         ///< "threads"
  std::string_view environment;  ///< "XC_THREADS"
  std::string_view choices;  ///< "auto|off|sync|freeze": names of 0, 1, 2, ...; empty = a number
  int64_t fallback;          ///< value that 0 stands for
  int64_t low, high;
  int64_t Config::* field;     ///< null for text
  std::string Config::* text;  ///< null for numbers
  std::string_view doc;
  bool engine_only = false;  ///< used before there is a session: none can have its own
};

std::span<const ConfigRow> config_table();

/// Fails with kNotFound, naming those that there are.
const ConfigRow& config_row(std::string_view name);

/// Sets one knob from text ("threads", "4"; "jit", "sync"). Fails as config_row() and with
/// kInvalidArgument, naming the legal values.
void set_config(Config& config, std::string_view name, std::string_view value);

/// The value of a row with the default put in for 0; of threads, the cores that this process may
/// use.
int64_t effective(const Config& config, int64_t Config::* field);

/// `base` with the fields of `overrides` that are not 0 (or empty) in their place. Fails with
/// kInvalidArgument, naming the option, where another value is asked for of one that is the
/// engine's alone.
Config overridden(const Config& base, const Config& overrides);

}  // namespace xc
