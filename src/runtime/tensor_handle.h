#pragma once
// The object behind xc_tensor: a tensor with a reference count. Outputs that a run returns come
// from the session's pool and go back to it at the last release, memory and all.

#include <atomic>
#include <memory>

#include "tensor/tensor.h"

namespace xc {

class OutputPool;

struct TensorHandle {
  /// Alive handles carry it: the C boundary tells them from null, foreign and deleted ones.
  static constexpr uint32_t kMagic = 0x58430e0a;
  volatile uint32_t magic = kMagic;
  ~TensorHandle() { magic = 0; }
  std::atomic<uint32_t> references{1};
  Tensor tensor;
  std::shared_ptr<OutputPool> pool;  ///< null = plain tensor, deleted at the last release
  uint32_t pool_index = 0;           ///< which output of the session

  void retain() { references.fetch_add(1, std::memory_order_relaxed); }
  /// Deletes or returns to the pool when this was the last reference.
  void release();
};

}  // namespace xc

/// The C handle is this object.
struct xc_tensor : xc::TensorHandle {};
