#include "backends/cpu/onednn_common.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <optional>

#include "backends/cpu/vector/casts_fn.h"
#include "base/block_signals.h"
#include "base/cpu_info.h"

// The two of omp.h that are called, from the OpenMP library which oneDNN brings; clang's header
// comes with another one, whose setting oneDNN does not see.
extern "C" int omp_get_max_threads();
extern "C" void omp_set_num_threads(int);

namespace xc::cpu {

const dnnl::engine& onednn_engine() {
  static const auto* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

OneThread::OneThread() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}
OneThread::~OneThread() {
  if (before_ != 1) omp_set_num_threads(before_);
}

bool onednn_has_type(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kF64:
    case DType::kF16:
    case DType::kBF16:
    case DType::kI8:
    case DType::kU8:
    case DType::kI32:
      return true;
    default:
      return false;
  }
}

dnnl::memory::data_type onednn_type(DType type) {
  using T = dnnl::memory::data_type;
  switch (type) {
    case DType::kF32:
      return T::f32;
    case DType::kF64:
      return T::f64;
    case DType::kF16:
      return T::f16;
    case DType::kBF16:
      return T::bf16;
    case DType::kI8:
      return T::s8;
    case DType::kU8:
      return T::u8;
    case DType::kI32:
      return T::s32;
    default:
      fail(Status::kInternal, "oneDNN has no type {}", name(type));
  }
}

bool has_bf16_products() {
  return cpu_info().avx512_bf16 || cpu_info().amx_bf16;
}

bool products_cut_alike() {
  // The library's own bound on instruction sets counts (ONEDNN_MAX_CPU_ISA).
  constexpr int kAvx512 = dnnl_cpu_isa_avx512_core;
  static const bool alike = (dnnl_get_effective_cpu_isa() & kAvx512) == kAvx512;
  return alike;
}

bool calls_sgemm(std::string_view implementation) {
  const size_t at = implementation.find("gemm");
  return at != implementation.npos && (at < 2 || implementation.substr(at - 2, 2) != "br");
}

void round_rows_to_bf16(const float* from, void* to, int64_t rows, int64_t columns,
                        int64_t stride) {
  static const ElementwiseFn round = cast_fn(DType::kF32, DType::kBF16, cpu_info().isa);
  const bool dense = rows == 1 || stride == columns;
  const int64_t times = dense ? 1 : rows, count = dense ? rows * columns : columns;
  for (int64_t row = 0; row < times; ++row)
    round({.in = {from + row * stride},
           .step = {1},
           .out = static_cast<std::byte*>(to) + row * columns * 2,
           .n = count,
           .params = nullptr});
}

namespace {

/// The library tells orders apart by strides, those of dims of size 1 included: sound ones stay, an
/// unusable one becomes what a row-major neighbour would give.
dnnl::memory::dims plausible_strides(std::span<const int64_t> dims,
                                     std::span<const int64_t> strides) {
  dnnl::memory::dims out(strides.begin(), strides.end());
  for (size_t axis = dims.size(); axis-- > 0;)
    if (dims[axis] == 1 && out[axis] <= 0)
      out[axis] = axis + 1 < dims.size() ? out[axis + 1] * dims[axis + 1] : 1;
  return out;
}

}  // namespace

dnnl::memory::desc strided_desc(std::span<const int64_t> dims, std::span<const int64_t> strides,
                                DType type) {
  return dnnl::memory::desc({dims.begin(), dims.end()}, onednn_type(type),
                            plausible_strides(dims, strides));
}

bool has_strided_desc(std::span<const int64_t> dims, std::span<const int64_t> strides) {
  const dnnl::memory::dims plausible = plausible_strides(dims, strides);
  std::vector<std::pair<int64_t, int64_t>> axes;  // stride, size
  for (size_t axis = 0; axis < dims.size(); ++axis) axes.emplace_back(plausible[axis], dims[axis]);
  std::sort(axes.begin(), axes.end());
  int64_t reach = 1;  // of the axes inside
  for (const auto& [stride, size] : axes) {
    if (stride < reach) return false;
    reach = stride * size;
  }
  return true;
}

dnnl::primitive_attr onednn_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

struct PreparedPrimitive::Lease {
  dnnl::stream stream{onednn_engine()};
  std::vector<dnnl::memory> memories;
  std::vector<dnnl_exec_arg_t> arguments;
};

namespace {

/// Whether no signal may interrupt it. The sgemm's code for small products (oneDNN 3.2,
/// jit_avx512_common_gemm_f32.cpp and jit_avx_gemm_f32.cpp, STACK_K_CAPACITY) lets the stack
/// pointer point into a block of the heap while it works through more than 84 terms: a signal's
/// frame then overwrites what lies in front of that block.
bool keeps_signals_out(const dnnl::primitive& primitive) {
  const char* name = nullptr;
  if (dnnl_primitive_desc_query(primitive.get_primitive_desc(), dnnl_query_impl_info_str, 0,
                                &name) != dnnl_success ||
      !name)
    return true;
  return calls_sgemm(name);
}

/// The sgemm makes the code of all its kernels at its first product (30 to 45 ms, oneDNN 3.2, AMD
/// Zen 4): here, where a primitive is made, most often in the background, and not in a run.
void make_sgemm_code() {
  static std::once_flag made;
  std::call_once(made, [] {
    constexpr int64_t kSize = 16;
    std::array<float, kSize * kSize> a{}, b{}, c;
    dnnl_sgemm('N', 'N', kSize, kSize, kSize, 1, a.data(), kSize, b.data(), kSize, 0, c.data(),
               kSize);
  });
}

}  // namespace

PreparedPrimitive::PreparedPrimitive(dnnl::primitive primitive, std::vector<Argument> arguments)
    : primitive_(std::move(primitive)),
      arguments_(std::move(arguments)),
      keeps_signals_out_(keeps_signals_out(primitive_)) {
  if (keeps_signals_out_) make_sgemm_code();
}

PreparedPrimitive::~PreparedPrimitive() {
  for (auto& slot : leases_) delete slot.load();
}

PreparedPrimitive::Lease* PreparedPrimitive::take() const {
  for (auto& slot : leases_)
    if (slot.load(std::memory_order_relaxed))
      if (Lease* lease = slot.exchange(nullptr)) return lease;
  return onednn_call("memory objects", [&] {
    auto lease = std::make_unique<Lease>();
    for (const Argument& argument : arguments_) {
      lease->memories.emplace_back(argument.desc, onednn_engine(),
                                   static_cast<void*>(DNNL_MEMORY_NONE));
      lease->arguments.push_back({argument.id, lease->memories.back().get()});
    }
    return lease.release();
  });
}

void PreparedPrimitive::give(Lease* lease) const {
  for (auto& slot : leases_) {
    Lease* empty = nullptr;
    if (slot.compare_exchange_strong(empty, lease)) return;
  }
  delete lease;
}

void PreparedPrimitive::execute(void* const* pointers) const {
  Lease* lease = take();
  for (size_t i = 0; i < arguments_.size(); ++i)
    dnnl_memory_set_data_handle(lease->arguments[i].memory, pointers[i]);
  std::optional<BlockSignals> guard;
  if (keeps_signals_out_) guard.emplace(BlockSignals::Which::kSentOnly);
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive_.get(), lease->stream.get(),
                             static_cast<int>(lease->arguments.size()), lease->arguments.data());
  guard.reset();
  give(lease);
  if (status != dnnl_success)
    fail(status == dnnl_out_of_memory ? Status::kOutOfMemory : Status::kInternal,
         "oneDNN failed with status {}", static_cast<int>(status));
}

}  // namespace xc::cpu
