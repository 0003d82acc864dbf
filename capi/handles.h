#pragma once
// What stands behind the opaque handles. Each starts with a magic number that live() checks and the
// destructor clears: a null, foreign or (mostly) destroyed handle is an error, not a crash.
// xc_tensor is runtime/tensor_handle.h.

#include <xc/xc.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "capi/guard.h"
#include "ops/custom.h"
#include "passes/rules/rule_set.h"
#include "profile/summary.h"
#include "runtime/session.h"

namespace xc::capi {

/// Base of a handle. Value: the magic number of its kind.
template <uint32_t Value>
struct Handle {
  static constexpr uint32_t kMagic = Value;
  volatile uint32_t magic = Value;  // volatile: the store in the destructor must not be dropped
  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { magic = 0; }
};

/// Adds a reference count, starting at 1.
template <uint32_t Value>
struct Shared : Handle<Value> {
  std::atomic<uint32_t> references{1};
};
template <class H>
H* retain(H* handle) noexcept {
  if (handle && handle->magic == H::kMagic)
    handle->references.fetch_add(1, std::memory_order_relaxed);
  return handle;
}
template <class H>
void release(H* handle) noexcept {
  if (handle && handle->magic == H::kMagic &&
      handle->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    const NoCancellation whole;
    const DefaultFloatEnvironment environment;
    delete handle;
  }
}
/// For handles with one owner.
template <class H>
void destroy(H* handle) noexcept {
  const NoCancellation whole;
  const DefaultFloatEnvironment environment;
  if (handle && handle->magic == H::kMagic) delete handle;
}

/// A port with the text and arrays that xc_port points to.
struct Port {
  explicit Port(const PortInfo& info);
  xc_port view() const;
  std::string name, type;
  std::vector<std::string> texts;
  std::vector<xc_string_view> text_views;
  std::vector<int64_t> dims;
  int32_t kind = XC_PORT_TENSOR;
  int32_t rank = -1;
  xc_dtype dtype = XC_DTYPE_UNDEFINED;
};

/// The host's operators and rules, shared; null = none.
struct HostOperators {
  std::shared_ptr<const OpLibrary> library;
  std::shared_ptr<const RuleSet> rules;
};
/// What stands behind a library handle; none for null.
HostOperators operators_of(xc_op_library* library);
/// From here on the library does not change any more. Null is allowed.
void put_to_use(xc_op_library* library) noexcept;

/// Highest rank of a tensor that comes in; Limits::rank of the front ends is the same.
inline constexpr uint32_t kMaxRank = 16;

/// Of text that is NUL-terminated, as all views are that the library gives; of none: "".
inline xc_string_view to_view(std::string_view text) {
  return {text.data() ? text.data() : "", text.size()};
}
inline xc_tensor_view to_view(const TensorView& view) {
  return {view.data, view.dims.data(), view.strides.data(), static_cast<xc_dtype>(view.dtype),
          static_cast<uint32_t>(view.dims.size())};
}
/// A new blob for the caller.
xc_blob* make_blob(std::string text);
/// The internal settings of a caller's xc_config (null = defaults).
Config to_config(const xc_config* given);
/// A new tensor handle with one reference.
xc_tensor* make_tensor(Tensor tensor);
/// The view of a handle that must be alive.
TensorView view_of(const xc_tensor* tensor, const char* what);
/// What a handle holds, for longer than the handle may live: a copy of what a run returned, whose
/// memory goes back to its session, else a reference.
Tensor lasting(const xc_tensor& tensor);
/// For elements of the type.
bool is_aligned(const void* data, DType dtype);
/// A C event whose text points into `event`.
xc_event to_c(const Event& event);
xc_counters to_c(const ProfileSummary& summary);

}  // namespace xc::capi

struct xc_engine : xc::capi::Shared<0x58430e01> {
  static constexpr const char* kKind = "engine";
  std::shared_ptr<xc::Engine> engine;
};

struct xc_model : xc::capi::Shared<0x58430e02> {
  static constexpr const char* kKind = "model";
  std::shared_ptr<const xc::Model> model;
  std::vector<xc::capi::Port> inputs, outputs;
};

struct xc_session : xc::capi::Handle<0x58430e03> {
  static constexpr const char* kKind = "session";
  std::shared_ptr<xc::Session> session;
  xc_model* model = nullptr;  // one reference
  ~xc_session() { xc::capi::release(model); }
};

struct xc_op_library : xc::capi::Shared<0x58430e0b> {
  static constexpr const char* kKind = "operator library";
  std::shared_ptr<xc::OpLibrary> library = std::make_shared<xc::OpLibrary>();
  std::shared_ptr<xc::RuleSet> rules = std::make_shared<xc::RuleSet>();
  std::atomic<bool> in_use{false};  ///< by an engine or graph: nothing changes any more
};

struct xc_op_call : xc::capi::Handle<0x58430e0c> {
  static constexpr const char* kKind = "operator call";
  xc::OpCall* call = nullptr;
  xc_status status = XC_OK;  ///< of the last failure, with its message
  std::string message;
};

struct xc_call : xc::capi::Handle<0x58430e04> {
  static constexpr const char* kKind = "call";
  std::shared_ptr<xc::Session> session;
  std::vector<xc_tensor*> held;  // one reference each: bound inputs and outputs
  std::unique_ptr<xc::Call> call;
  std::atomic<bool> running{false};  ///< its memory is one run's at a time
  ~xc_call();
};

struct xc_graph : xc::capi::Handle<0x58430e05> {
  static constexpr const char* kKind = "graph";
  xc::capi::HostOperators operators;  // that the graph may use; goes after it
  xc::Graph graph;
};

struct xc_profile : xc::capi::Handle<0x58430e06> {
  static constexpr const char* kKind = "profile";
  xc::ProfileSummary summary;
};

struct xc_cancel : xc::capi::Handle<0x58430e07> {
  static constexpr const char* kKind = "cancel";
  std::atomic<bool> flag{false};
};

struct xc_blob : xc::capi::Handle<0x58430e08> {
  static constexpr const char* kKind = "blob";
  std::string bytes;
};

struct xc_error : xc::capi::Handle<0x58430e09> {
  static constexpr const char* kKind = "error";
  xc_status status = XC_OK;
  std::string message, where, text;
  /// The static error for when there is no memory for one; destroying it does nothing.
  const char* fixed = nullptr;
};
