#include "codegen/target.h"

#include "base/error.h"

namespace xc::codegen {

std::string host_target_name() {
#if defined(__x86_64__)
  // All that a level has, as the code generator takes it for granted: lzcnt, say, is another
  // instruction where it is not there.
  if (__builtin_cpu_supports("x86-64-v4")) return "x86-64-v4";
  if (__builtin_cpu_supports("x86-64-v3")) return "x86-64-v3";
  return "x86-64-v2";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "unsupported";
#endif
}

Target target_from_name(std::string_view name) {
  Target out;
  out.name = name == "host" ? host_target_name() : std::string(name);
  out.math = loop::MathLevel::kFma;
  if (out.name.starts_with("x86-64-v")) {
    out.family = Family::kX86;
    out.triple = "x86_64-unknown-linux-gnu";
    out.cpu = out.name;
    if (out.name == "x86-64-v2") {
      out.math = loop::MathLevel::kMulAdd;
      return out;
    }
    out.masked_words = out.half_convert = true;
    out.vector_bits = 256;
    if (out.name == "x86-64-v3") return out;
    out.math = loop::MathLevel::kFmaMasked;
    out.masked_all = out.gather = out.rotate_partials = true;
    out.vector_bits = 512;
    if (out.name == "x86-64-v4") return out;
  } else if (out.name == "aarch64") {
    out.family = Family::kAArch64;
    out.triple = "aarch64-unknown-linux-gnu";
    out.cpu = "generic";
    out.rotate_partials = true;
    out.half_convert = true;
    return out;
  } else if (out.name.starts_with("nvptx:sm_")) {
    out.family = Family::kNvptx;
    out.triple = "nvptx64-nvidia-cuda";
    out.cpu = out.name.substr(6);
    out.features = "+ptx78";
    out.half_convert = true;
    return out;
  }
  fail(Status::kUnsupported, "code generation: unknown target {}", name);
}

}  // namespace xc::codegen
