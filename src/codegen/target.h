// What a target name stands for.
#pragma once

#include <string>
#include <string_view>

#include "loop/math.h"

namespace xc::codegen {

enum class Family { kX86, kAArch64, kNvptx };

struct Target {
  std::string name;  // as asked for, "host" resolved
  Family family;
  std::string triple, cpu, features;
  loop::MathLevel math;
  unsigned vector_bits = 128;  // of a register
  // Vector memory under a mask as one instruction: for 4- and 8-byte elements, for all.
  bool masked_words = false, masked_all = false;
  bool gather = false;  // gather and scatter of 4- and 8-byte elements
  bool rotate_partials =
      false;                  // 32 registers: reductions are one body sooner (emit_statements.cpp)
  bool half_convert = false;  // f16 <-> f32 instructions
};

// Throws xc::Error for names it does not know.
Target target_from_name(std::string_view name);
std::string host_target_name();

}  // namespace xc::codegen
