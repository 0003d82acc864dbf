#pragma once
// What one run may hold at once of values, results and working memory: Config::max_memory_bytes.

#include "base/checked.h"

namespace xc {

/// Of one run and the bodies in it, which run on its thread.
class MemoryBudget {
 public:
  explicit MemoryBudget(int64_t most) : most_(most) {}
  /// Before so much is taken. Fails with kLimit where it is more than is left, which stays.
  void charge(int64_t bytes) {
    if (bytes > left())
      fail(Status::kLimit,
           "this run needs {} bytes for values and results, max_memory_bytes allows {}",
           checked_add(used_, bytes), most_);
    used_ += bytes;
  }
  /// Of what was charged.
  void release(int64_t bytes) { used_ -= bytes; }
  int64_t left() const { return most_ - used_; }

 private:
  friend class BudgetScope;
  const int64_t most_;
  int64_t used_ = 0;
};

/// What is charged while it lives is released at its end. A null budget allows all.
class BudgetScope {
 public:
  explicit BudgetScope(MemoryBudget* budget) : budget_(budget), used_(budget ? budget->used_ : 0) {}
  ~BudgetScope() {
    if (budget_) budget_->used_ = used_;
  }
  BudgetScope(const BudgetScope&) = delete;
  BudgetScope& operator=(const BudgetScope&) = delete;

 private:
  MemoryBudget* budget_;
  int64_t used_;
};

}  // namespace xc
