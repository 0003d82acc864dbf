#include "base/config.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/cpu_info.h"
#include "base/error.h"

namespace xc {
namespace {

using C = Config;
constexpr int64_t kMax = INT64_MAX;
constexpr int64_t kMostThreads = 1024;
constexpr bool kEngineOnly = true;
constexpr std::array<ConfigRow, 23> kTable{{
    {"threads", "XC_THREADS", "", 0, 0, kMostThreads, &C::threads, nullptr,
     "workers of a run, the calling thread included; 0 = all cores this process may use",
     kEngineOnly},
    {"jit", "XC_JIT", "auto|off|sync|freeze", 0, 0, 3, &C::jit, nullptr,
     "auto compiles in the background, sync at first use, off never, freeze keeps what is there"},
    {"numerics", "XC_NUMERICS", "tolerant|fast|strict", 0, 0, 2, &C::numerics, nullptr,
     "strict: a swap of kernels changes no bit; fast: bf16 products by weights (k terms within "
     "2^-8 + k 2^-23 of the sum of their magnitudes), functions in fused kernels within 2^-11"},
    {"code_cache_bytes", "XC_CODE_CACHE_BYTES", "", 64 << 20, 0, kMax, &C::code_cache_bytes,
     nullptr, "cap of executable memory of an engine", kEngineOnly},
    {"bound_cache_bytes", "XC_BOUND_CACHE_BYTES", "", 24 << 20, 0, kMax, &C::bound_cache_bytes,
     nullptr, "cap of plans bound to input signatures, per session with its loops and branches"},
    {"max_memory_bytes", "XC_MAX_MEMORY_BYTES", "", 0, 0, kMax, &C::max_memory_bytes, nullptr,
     "cap of the memory one run may need; 0 = none"},
    {"compile_cpu_percent", "XC_COMPILE_CPU_PERCENT", "", 2, 0, 100, &C::compile_cpu_percent,
     nullptr, "share of process CPU that background compilation may use after the first seconds",
     kEngineOnly},
    {"copy_weights", "XC_COPY_WEIGHTS", "", 0, 0, 1, &C::copy_weights, nullptr,
     "1 reads the model file into memory instead of mapping it", kEngineOnly},
    {"isa", "XC_ISA", "best|baseline|avx2|avx512", 0, 0, 3, &C::isa, nullptr,
     "highest instruction set generated code may use", kEngineOnly},
    {"force_swap", "XC_FORCE_SWAP", "", 0, 0, 1, &C::force_swap, nullptr,
     "testing: publish another plan at every run"},
    {"verify_passes", "XC_VERIFY_PASSES", "", 0, 0, 1, &C::verify_passes, nullptr,
     "verify the graph after every pass", kEngineOnly},
    {"poison_arena", "XC_POISON_ARENA", "", 0, 0, 1, &C::poison_arena, nullptr,
     "testing: fill working memory with NaN patterns before every run"},
    {"rules", "XC_RULES", "on|off", 0, 0, 1, &C::rules, nullptr,
     "pattern rules (gelu, layer norm, ...)", kEngineOnly},
    {"fusion", "XC_FUSION", "on|off", 0, 0, 1, &C::fusion, nullptr, "fused regions"},
    {"trace_compiles", "XC_TRACE_COMPILES", "", 0, 0, 1, &C::trace_compiles, nullptr,
     "keep loop IR and assembly of compiled regions for explain", kEngineOnly},
    {"cache_dir", "XC_CACHE_DIR", "", 0, 0, 0, nullptr, &C::cache_dir,
     "directory of the persistent cache; empty = off"},
    {"kernels", "XC_KERNELS", "best|reference", 0, 0, 1, &C::kernels, nullptr,
     "reference: every step on its slow reference kernel, to find a wrong one"},
    {"layouts", "XC_LAYOUTS", "on|off", 0, 0, 1, &C::layouts, nullptr,
     "channels-last values around convolutions, parts of a Concat in place"},
    {"trace_steps", "XC_TRACE_STEPS", "", 0, 0, 10'000'000, &C::trace_steps, nullptr,
     "steps of sampled runs kept for a trace, per session and body; 0 = none"},
    {"cache_bytes", "XC_CACHE_BYTES", "", 256 << 20, 0, kMax, &C::cache_bytes, nullptr,
     "cap of the files of the persistent cache"},
    {"post_ops", "XC_POST_OPS", "on|off", 0, 0, 1, &C::post_ops, nullptr,
     "operators that finish another's results in its step; off: a step for every operator"},
    {"winograd", "XC_WINOGRAD", "on|off", 0, 0, 1, &C::winograd, nullptr,
     "windows of a convolution that overlap computed together; off: each on its own"},
    {"bands", "XC_BANDS", "on|off|always", 0, 0, 2, &C::bands, nullptr,
     "convolutions that hand on more than a cache holds run band by band; off: one after another"},
}};

}  // namespace

std::span<const ConfigRow> config_table() {
  return kTable;
}

const ConfigRow& config_row(std::string_view name) {
  for (const ConfigRow& row : kTable)
    if (row.name == name) return row;
  std::string names;
  for (const ConfigRow& row : kTable) {
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  fail(Status::kNotFound, "no option named '{}'; there are: {}", name, names);
}

void set_config(Config& config, std::string_view name, std::string_view value) {
  const ConfigRow& row = config_row(name);
  if (row.text) {
    config.*row.text = std::string(value);
    return;
  }
  int64_t index = 0;
  for (std::string_view rest = row.choices; !rest.empty(); ++index) {
    const size_t bar = rest.find('|');
    if (rest.substr(0, bar) == value) {
      config.*row.field = index;
      return;
    }
    rest = bar == std::string_view::npos ? std::string_view{} : rest.substr(bar + 1);
  }
  if (!row.choices.empty())
    fail(Status::kInvalidArgument, "option {}: '{}' is not one of {}", name, value, row.choices);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool parsed = error == std::errc{} && end == value.data() + value.size();
  if (!parsed || number < row.low || number > row.high)
    fail(Status::kInvalidArgument, "option {}: '{}' is not a number from {} to {}", name, value,
         row.low, row.high);
  config.*row.field = number;
}

int64_t effective(const Config& config, int64_t Config::* field) {
  if (config.*field != 0) return config.*field;
  if (field == &C::threads) return std::min<int64_t>(cpu_info().cores, kMostThreads);
  for (const ConfigRow& row : kTable)
    if (row.field == field) return row.fallback;
  return 0;
}

Config overridden(const Config& base, const Config& overrides) {
  Config out = base;
  for (const ConfigRow& row : kTable) {
    if (row.text && !(overrides.*row.text).empty()) out.*row.text = overrides.*row.text;
    if (!row.field || overrides.*row.field == 0) continue;
    if (row.engine_only && effective(overrides, row.field) != effective(base, row.field))
      fail(Status::kInvalidArgument,
           "option {} is the engine's, no session has its own: give it to the engine", row.name);
    out.*row.field = overrides.*row.field;
  }
  return out;
}

}  // namespace xc
