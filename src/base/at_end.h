#pragma once
// What has to be done when a scope is left, by an exception too.

#include <utility>

namespace xc {

/// Calls a function when it goes.
template <class F>
class AtEnd {
 public:
  explicit AtEnd(F function) : function_(std::move(function)) {}
  ~AtEnd() { function_(); }
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;

 private:
  F function_;
};

}  // namespace xc
