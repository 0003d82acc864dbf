#pragma once
// The engine: threads, settings, callbacks and the compiler shared by all sessions made with it.

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "backends/backend.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/memory_budget.h"
#include "base/thread_pool.h"
#include "profile/event.h"
#include "runtime/tier_hooks.h"
#include "tensor/tensor.h"

namespace xc {

class OpLibrary;  // ops/custom.h
class RuleSet;    // passes/rules/rule_set.h

enum class LogLevel : int32_t { kError = 1, kWarning = 2, kInfo = 3, kDebug = 4 };

/// What the host provides. All callbacks may come from any thread, never with a lock of xc held.
struct HostHooks {
  std::function<void(LogLevel, const std::string&)> log;
  std::function<void(const Event&)> event;
  std::shared_ptr<TaskRunner> tasks;  ///< null = own pool
  /// Memory of arenas and outputs; null = malloc. 64-byte alignment is asked for.
  std::function<void*(size_t bytes, size_t alignment)> allocate;
  std::function<void(void* memory, size_t bytes)> release;
  /// The host's operators and rules; null = none.
  std::shared_ptr<const OpLibrary> operators;
  std::shared_ptr<const RuleSet> rules;
};

class Engine : public std::enable_shared_from_this<Engine> {
 public:
  /// `tier` may be null: then nothing is ever compiled.
  Engine(Config config, HostHooks hooks, std::unique_ptr<TierHooks> tier);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const Config& config() const { return config_; }
  /// The host's operators and rules, for models made with this engine; null = none.
  const std::shared_ptr<const OpLibrary>& operators() const { return hooks_.operators; }
  const std::shared_ptr<const RuleSet>& rules() const { return hooks_.rules; }
  TaskRunner& tasks() const { return *tasks_; }
  TierHooks* tier() const { return tier_.get(); }
  const Backend& backend() const { return cpu_backend(); }
  /// The backend's rows, for steps that find out their sizes.
  const RowsByOperator& rows() const { return rows_; }
  void log(LogLevel level, const std::string& message) const;
  void emit(const Event& event) const;
  /// Nanoseconds since the engine was made: the time of events. Never goes back.
  int64_t age_ns() const { return steady_ns() - made_ns_; }
  /// The same for a count of base/clock.h's ticks().
  double age_ns(uint64_t at_ticks) const {
    return static_cast<double>(static_cast<int64_t>(at_ticks - made_ticks_)) * ns_per_tick();
  }
  /// Memory of runs; accounts and throws kOutOfMemory.
  void* allocate(int64_t bytes) const;
  void release(void* memory, int64_t bytes) const noexcept;
  /// A tensor in such memory, which keeps the engine; strings and containers lie elsewhere.
  Tensor tensor(DType dtype, Dims dims) const;
  /// The tensor itself where it is row-major, or such a copy, charged to `budget` unless null.
  Tensor row_major(const Tensor& tensor, MemoryBudget* budget) const;
  /// What allocate() gave and release() has not taken back.
  int64_t working_bytes() const { return working_bytes_.load(std::memory_order_relaxed); }

 private:
  const int64_t made_ns_ = steady_ns();
  const uint64_t made_ticks_ = ticks();
  mutable std::atomic<int64_t> working_bytes_{0};
  Config config_;
  HostHooks hooks_;
  std::shared_ptr<TaskRunner> tasks_;
  std::unique_ptr<TierHooks> tier_;
  const RowsByOperator rows_{backend()};
};

}  // namespace xc
