#pragma once
// Memory of returned outputs: handed out by runs, back at the last release of the handle. Kept for
// the next run, unless that will hardly need as much.

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/engine.h"
#include "runtime/tensor_handle.h"

namespace xc {

class OutputPool : public std::enable_shared_from_this<OutputPool> {
 public:
  OutputPool(std::shared_ptr<Engine> engine, size_t outputs);
  ~OutputPool();
  /// A handle with one reference and row-major memory for `dims`; reuses a free one of this output
  /// without allocating when its memory is large enough.
  xc_tensor* acquire(uint32_t output, DType dtype, std::span<const int64_t> dims);
  /// The same of a free one that is large enough as it is, also for the rank; null where none is.
  xc_tensor* acquire_ready(uint32_t output, DType dtype, std::span<const int64_t> dims);
  /// What is free keeps its memory from here on, however large, for runs that may not allocate.
  void keep_memory();
  void give_back(xc_tensor* handle) noexcept;

  static constexpr size_t kKeep = 8;  ///< free handles per output

 private:
  /// What is free of one output.
  struct Shelf {
    std::vector<xc_tensor*> free;
    int64_t asked = 0;  ///< bytes, about the most that was asked for lately
    void ask(int64_t bytes);
    /// Whether a handle holds far more than that.
    bool too_large(const xc_tensor* handle) const;
  };
  /// A handle with its memory is the caller's from here on.
  xc_tensor* handed_out(xc_tensor* handle, uint32_t output);
  std::shared_ptr<Engine> engine_;
  std::mutex mutex_;
  std::vector<Shelf> shelves_;
  bool keeps_ = false;  ///< keep_memory() was called; guarded by mutex_
};

/// Where results go. A null slot receives a handle from `pool`; a given one is written in place.
struct OutputPorts {
  xc_tensor** slots = nullptr;
  size_t count = 0;
  OutputPool* pool = nullptr;
  const int64_t* offsets = nullptr;  ///< in bytes, into the memory of given slots; null = none
};

/// The tensor of a handle; its last user gives the reference to the handle back, and so does this
/// when it fails.
Tensor take_tensor(xc_tensor* handle);

}  // namespace xc
