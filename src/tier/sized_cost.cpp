#include "tier/sized_cost.h"

#include <algorithm>
#include <array>

namespace xc::tier {

SizedCost::SizedCost(const RegionCost& cost, const Plan& plan) : symbols_(0) {
  program_ = DimProgram({cost.bytes_fused, cost.bytes_varying, cost.product_flops, cost.flops},
                        [&](const std::string& name) -> uint32_t {
                          const auto& all = plan.symbols;
                          const auto known = std::ranges::find(all, name, &PlanSymbol::name);
                          if (known == all.end()) {
                            symbols_ = SIZE_MAX;
                            return 0;
                          }
                          const auto index = static_cast<uint32_t>(known - all.begin());
                          symbols_ = std::max<size_t>(symbols_, index + 1);
                          return index;
                        });
}

SizedCost::Sizes SizedCost::at(std::span<const int64_t> symbols) const {
  if (symbols.size() < symbols_) return {};
  std::array<int64_t, 4> values{};
  try {
    program_.run(symbols.data(), values.data());
  } catch (const Error& error) {
    if (error.status() == Status::kOutOfMemory) throw;
    return {};
  }
  return {static_cast<double>(values[0]), static_cast<double>(values[1]),
          static_cast<double>(values[2]), static_cast<double>(values[3])};
}

}  // namespace xc::tier
