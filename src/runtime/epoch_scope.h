#pragma once
// When a run is in what is published: what it may see is not destroyed meanwhile (epoch.h).

#include "runtime/program.h"

namespace xc {

/// Epoch of a run: set at entry, cleared at exit. Where what was evicted waited for it, the next
/// one is to let go of that. Asks for no memory.
class Program::EpochScope {
 public:
  EpochScope(Program& program, RunContext& context) : program_(program), context_(context) {
    context_.epoch.store(program_.epochs_.current(), std::memory_order_seq_cst);
  }
  ~EpochScope() {
    context_.passing.clear();
    const uint64_t entered = context_.epoch.load(std::memory_order_relaxed);
    context_.epoch.store(0, std::memory_order_release);
    if (program_.epochs_.waits_for(entered)) [[unlikely]]
      program_.evicted_.store(true, std::memory_order_relaxed);
  }
  EpochScope(const EpochScope&) = delete;
  EpochScope& operator=(const EpochScope&) = delete;

 private:
  Program& program_;
  RunContext& context_;
};

}  // namespace xc
