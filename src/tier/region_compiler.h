#pragma once
// From the loop IR of one phase to something that runs. Two implementations: the JIT (libxcrt-jit,
// opened at the first compile) and an interpreter that stands in for it in tests.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "loop/kernel.h"
#include "loop/schedule.h"
#include "xc/kernel_abi.h"

namespace xc {

/// Position-independent code that refers to nothing outside itself.
struct CodeImage {
  std::span<const uint8_t> code;
  size_t entry = 0;      ///< offset of the function
  size_t alignment = 1;  ///< of the code, a power of two up to the page size
};

/// What code cost to make, in seconds of the thread's CPU time: the code generator's phases
/// (`codegen/codegen.h`), and the way there and into executable memory.
struct CompileTimes {
  double print = 0, read = 0, emit = 0, optimize = 0, generate = 0, link = 0, publish = 0;
};

/// Executable code of one loop kernel; owns it. Thread-safe.
class PhaseCode {
 public:
  virtual ~PhaseCode() = default;
  virtual int32_t run(const xc_kargs& args) const = 0;
  virtual int64_t code_bytes() const = 0;
  /// Loop IR and assembly when they were asked for, else empty.
  virtual const std::string& listing() const;
  /// All zero where it was not made here.
  virtual CompileTimes times() const { return {}; }
  /// The code as it lies in memory, for later processes; empty when it cannot be kept.
  virtual CodeImage image() const { return {}; }
};

class RegionCompiler {
 public:
  virtual ~RegionCompiler() = default;
  /// Fails with an Error whose message says why; kUnsupported when executable memory is refused or
  /// the code generator is not installed (then `disabled()` says so from now on), kOutOfMemory when
  /// that is so for want of memory, mappings or descriptors and may pass, kLimit when executable
  /// memory is full.
  virtual std::shared_ptr<const PhaseCode> compile(const loop::Kernel& kernel) = 0;
  /// Makes an earlier process's code ready to run, without opening the code generator. Fails as
  /// compile() does.
  virtual std::shared_ptr<const PhaseCode> place(const CodeImage&) {
    fail(Status::kUnsupported, "this compiler keeps no code");
  }
  /// What code depends on besides its kernel: the build of the code generator, the processor, the
  /// target. Empty when code cannot be kept for later processes.
  virtual std::string identity() const { return {}; }
  /// What lowering may know of the target.
  virtual loop::TargetWidth target() const { return {}; }
  /// What a process pays once beyond the work for a region: opening the code generator and
  /// its tables. Called before a region's compile is timed. Never fails.
  virtual void warm_up() {}
  /// Why nothing can be compiled in this process; empty = it can.
  virtual std::string disabled() const { return {}; }
  virtual int64_t code_bytes() const { return 0; }
};

/// `isa`: Config::isa. `code_bytes`: cap of executable memory. Nothing is opened or mapped before
/// the first compile.
std::unique_ptr<RegionCompiler> create_jit_compiler(int64_t isa, int64_t code_bytes, bool listing);

/// Runs the loop interpreter: slow, without LLVM and executable memory. The text is the code.
std::unique_ptr<RegionCompiler> create_interpreting_compiler();

}  // namespace xc
