#pragma once
// What calls a region's machine code, kept beside it in the persistent cache: RegionCode without
// the bodies of its loops. A process that finds both lowers nothing.

#include <optional>
#include <string>
#include <string_view>

#include "backends/step.h"
#include "plan/fusion/region.h"

namespace xc {

std::string encode_region_code(const RegionCode& code);
/// nullopt for anything but what encode_region_code() wrote for a region of these operands. Of the
/// loops there is what RegionKernel asks: names of sizes, buffers, scratch, the parallel loop.
std::optional<RegionCode> decode_region_code(std::string_view text, const StepSpec& spec);

}  // namespace xc
