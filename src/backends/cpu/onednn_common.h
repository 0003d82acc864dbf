#pragma once
// What every oneDNN kernel shares: the engine, single-threaded execution, primitives prepared for
// repeated execution by any number of threads.

#include <array>
#include <atomic>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "backends/step.h"
#include "base/at_end.h"
#include "base/exit_gate.h"
#include "base/large_stack.h"

namespace xc::cpu {

/// The one CPU engine: immutable, shared by the process.
const dnnl::engine& onednn_engine();

/// oneDNN runs on the calling thread alone while this lives. The setting belongs to the thread and
/// is the host's: it comes back at the end. Costs some 15 ns.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

dnnl::memory::data_type onednn_type(DType type);
/// False for types oneDNN has no name for.
bool onednn_has_type(DType type);
/// A strided descriptor; strides of dims of size 1 are made plausible (oneDNN checks them).
dnnl::memory::desc strided_desc(std::span<const int64_t> dims, std::span<const int64_t> strides,
                                DType type);
/// Whether there is one: elements that lie backwards or in the same places the library does not
/// take.
bool has_strided_desc(std::span<const int64_t> dims, std::span<const int64_t> strides);

/// Whether products of bf16 operands have instructions here. Without them `fast` computes products
/// as `tolerant` does.
bool has_bf16_products();
/// Whether an element of the library's f32 products has the same bits however many rows and columns
/// are computed with it. With AVX2 the library has another kernel for small ones (oneDNN 3.2): who
/// cuts a product there must do so by its shape alone.
bool products_cut_alike();
/// Whether an implementation, as the library names it, multiplies by its sgemm: "gemm:jit",
/// "x64:gemm:jit", "jit:gemm"; not "brgemm".
bool calls_sgemm(std::string_view implementation);
/// Rounds rows that are `stride` elements apart to nearest even, into dense ones.
void round_rows_to_bf16(const float* from, void* to, int64_t rows, int64_t columns, int64_t stride);

/// Fixed arguments' order for one primitive. execute() may be called by many threads at once: the
/// memory objects it needs are leased from a small pool of its own.
class PreparedPrimitive {
 public:
  struct Argument {
    int id;  ///< DNNL_ARG_...
    dnnl::memory::desc desc;
  };
  PreparedPrimitive(dnnl::primitive primitive, std::vector<Argument> arguments);
  ~PreparedPrimitive();
  PreparedPrimitive(const PreparedPrimitive&) = delete;
  PreparedPrimitive& operator=(const PreparedPrimitive&) = delete;

  /// pointers[i] belongs to arguments[i]. The caller holds a OneThread.
  void execute(void* const* pointers) const;
  size_t argument_count() const { return arguments_.size(); }

 private:
  struct Lease;
  Lease* take() const;
  void give(Lease* lease) const;

  dnnl::primitive primitive_;
  std::vector<Argument> arguments_;
  bool keeps_signals_out_;  ///< while it runs
  mutable std::array<std::atomic<Lease*>, 4> leases_{};
};

/// Runs `body`, which makes an object of oneDNN; an error becomes an xc::Error. Where the stack is
/// small, on another thread.
template <class Body>
auto onednn_call(std::string_view what, Body&& body) {
  const InsideLibrary inside;  // its cache of primitives is a static object
  const AtEnd registered(keep_out_at_exit);
  try {
    return on_large_stack([&] {
      const OneThread guard;  // the setting of whichever thread it is
      return body();
    });
  } catch (const dnnl::error& error) {
    fail(error.status == dnnl_out_of_memory ? Status::kOutOfMemory : Status::kInternal,
         "oneDNN refused {}: {}", what, error.message);
  }
}

/// Attributes every primitive gets: scratchpads come from us, so that runs allocate nothing.
dnnl::primitive_attr onednn_attributes();

}  // namespace xc::cpu
