// The steps from loop IR text to an image.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/codegen.h"

namespace xc::codegen {

struct Compiled {
  std::vector<uint8_t> code;
  size_t entry = 0, alignment = 1;
  std::string assembly, ir;
  xc_jit_times times{};
};

// Throws xc::Error; anything LLVM has to say about a failure is in the message.
Compiled compile(std::string_view text, std::string_view target, bool want_assembly, bool want_ir);

}  // namespace xc::codegen
