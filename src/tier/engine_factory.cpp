#include "tier/engine_factory.h"

#include "tier/tier.h"

namespace xc {

std::shared_ptr<Engine> create_engine(const Config& config, HostHooks hooks) {
  for (const ConfigRow& row : config_table())
    if (row.field && (config.*row.field < row.low || config.*row.field > row.high))
      fail(Status::kInvalidArgument, "option {}: {} is outside {} to {}", row.name,
           config.*row.field, row.low, row.high);
  auto tier = std::make_unique<Tier>(
      create_jit_compiler(config.isa, effective(config, &Config::code_cache_bytes),
                          config.trace_compiles != 0),
      config);
  return std::make_shared<Engine>(config, std::move(hooks), std::move(tier));
}

}  // namespace xc
