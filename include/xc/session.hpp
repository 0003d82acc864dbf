// Sessions, prepared calls and profiles; see xc.hpp, and session.h, call.h and profile.h for
// ownership and threads.
#pragma once

#include <xc/call.h>
#include <xc/profile.h>
#include <xc/session.h>
#include <xc/model.hpp>

#include <array>
#include <chrono>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace xcrt {

/// A switch that stops the runs it was given to.
class Cancel {
 public:
  Cancel() {
    xc_cancel* handle = nullptr;
    detail::check(xc_cancel_create(&handle));
    handle_.reset(handle);
  }
  void set() { xc_cancel_set(handle()); }
  void reset() { xc_cancel_reset(handle()); }
  xc_cancel* handle() const { return handle_.get(); }

 private:
  detail::Owner<xc_cancel, &xc_cancel_destroy> handle_;
};

struct RunOptions {
  std::chrono::nanoseconds timeout{0};  ///< 0 = none
  const Cancel* cancel = nullptr;
  bool no_compile = false;
  bool no_alloc = false;

  xc_run_options raw() const {
    xc_run_options out = XC_RUN_OPTIONS_INIT;
    out.flags = (no_compile ? uint32_t{XC_RUN_NO_COMPILE} : 0u) |
                (no_alloc ? uint32_t{XC_RUN_NO_ALLOC} : 0u);
    out.timeout_ns = timeout.count();
    out.cancel = cancel ? cancel->handle() : nullptr;
    return out;
  }
};

/// A snapshot of what a session has learnt and done; immutable.
class Profile {
 public:
  explicit Profile(xc_profile* handle) : handle_(handle) {}
  xc_counters counters() const {
    xc_counters out = XC_COUNTERS_INIT;
    detail::check(xc_profile_counters(handle(), &out));
    return out;
  }
  /// Text of the entries lives as long as the profile.
  std::vector<xc_region> regions() const {
    std::vector<xc_region> out(xc_profile_region_count(handle()), xc_region XC_REGION_INIT);
    for (uint32_t i = 0; i < out.size(); ++i)
      detail::check(xc_profile_region(handle(), i, &out[i]));
    return out;
  }
  std::vector<xc_event> events() const {
    std::vector<xc_event> out(xc_profile_event_count(handle()), xc_event XC_EVENT_INIT);
    for (uint32_t i = 0; i < out.size(); ++i) detail::check(xc_profile_event(handle(), i, &out[i]));
    return out;
  }
  /// Shape classes of region `region` of regions(), most calls first.
  std::vector<xc_region_shape> shapes(uint32_t region) const {
    std::vector<xc_region_shape> out(xc_profile_shape_count(handle(), region),
                                     xc_region_shape XC_REGION_SHAPE_INIT);
    for (uint32_t i = 0; i < out.size(); ++i)
      detail::check(xc_profile_shape(handle(), region, i, &out[i]));
    return out;
  }
  /// Everything above; see xc_profile_json().
  std::string json() const {
    return detail::text_of(&xc_profile_json, static_cast<const xc_profile*>(handle()));
  }
  xc_profile* handle() const { return handle_.get(); }

 private:
  detail::Owner<xc_profile, &xc_profile_destroy> handle_;
};

/// A run prepared for fixed shapes and memory; one thread at a time, others fail with XC_BUSY.
class Call {
 public:
  explicit Call(xc_call* handle) : handle_(handle) {}
  void run() { detail::call(&xc_call_run, handle()); }
  uint32_t output_count() const { return xc_call_output_count(handle()); }
  /// Shares the call's output tensor.
  Tensor output(uint32_t index) const {
    return Tensor::adopt(xc_tensor_retain(xc_call_output(handle(), index)));
  }
  xc_call* handle() const { return handle_.get(); }

 private:
  detail::Owner<xc_call, &xc_call_destroy> handle_;
};

/// A model made ready to run. Any number of threads may run it at once.
class Session {
 public:
  /// `overrides`: fields that are not 0 replace the engine's; not those that are its alone, see
  /// xc_session_options.
  explicit Session(const Model& model, const Config& overrides = {})
      : outputs_(xc_model_output_count(model.handle())) {
    xc_session_options options = XC_SESSION_OPTIONS_INIT;
    options.config = &overrides.raw();
    xc_session* handle = nullptr;
    detail::call(&xc_session_create, model.handle(),
                 static_cast<const xc_session_options*>(&options), &handle);
    handle_.reset(handle);
  }

  /// Runs once; inputs in the model's order, an empty Tensor for an absent one.
  template <class... T>
    requires(std::is_same_v<std::remove_cvref_t<T>, Tensor> && ...)
  std::vector<Tensor> run(const T&... inputs) {
    const std::array<const xc_tensor*, sizeof...(T)> handles{inputs.handle()...};
    return run(handles, {});
  }
  std::vector<Tensor> run(std::span<const xc_tensor* const> inputs, const RunOptions& options) {
    std::vector<xc_tensor*> out(outputs_, nullptr);
    run_into(inputs, out, options);
    std::vector<Tensor> result;
    result.reserve(out.size());
    for (xc_tensor* tensor : out) result.push_back(Tensor::adopt(tensor));
    return result;
  }
  /// As xc_session_run: null slots receive references that the caller releases.
  void run_into(std::span<const xc_tensor* const> inputs, std::span<xc_tensor*> outputs) {
    run_with(&xc_session_run, inputs, outputs, nullptr);
  }
  void run_into(std::span<const xc_tensor* const> inputs, std::span<xc_tensor*> outputs,
                const RunOptions& options) {
    const xc_run_options raw = options.raw();
    run_with(&xc_session_run, inputs, outputs, &raw);
  }
  /// The same for inputs that are no tensors of the library; see xc_session_run_views().
  void run_into(std::span<const xc_tensor_view> inputs, std::span<xc_tensor*> outputs) {
    run_with(&xc_session_run_views, inputs, outputs, nullptr);
  }
  void run_into(std::span<const xc_tensor_view> inputs, std::span<xc_tensor*> outputs,
                const RunOptions& options) {
    const xc_run_options raw = options.raw();
    run_with(&xc_session_run_views, inputs, outputs, &raw);
  }

  /// Binds inputs, and outputs of the call's own, for repeated runs.
  template <class... T>
    requires(std::is_same_v<std::remove_cvref_t<T>, Tensor> && ...)
  Call prepare(const T&... inputs) {
    const std::array<const xc_tensor*, sizeof...(T)> handles{inputs.handle()...};
    return prepare(handles);
  }
  /// As xc_session_prepare: no outputs, and null ones, become tensors of the call's own.
  Call prepare(std::span<const xc_tensor* const> inputs, std::span<xc_tensor* const> outputs = {}) {
    xc_call* call = nullptr;
    detail::call(&xc_session_prepare, handle(), inputs.data(), static_cast<uint32_t>(inputs.size()),
                 outputs.empty() ? nullptr : outputs.data(), static_cast<uint32_t>(outputs.size()),
                 &call);
    return Call(call);
  }

  /// Ends adaptation: current code stays; see xc_session_freeze().
  void freeze() { detail::call(&xc_session_freeze, handle()); }
  /// Compiles for given sizes before the session serves; false on timeout.
  bool warm_up(std::span<const xc_shape> shapes, std::chrono::milliseconds timeout) {
    int32_t done = 0;
    detail::call(&xc_session_warm_up, handle(), shapes.data(), static_cast<uint32_t>(shapes.size()),
                 static_cast<int64_t>(timeout.count()), &done);
    return done != 0;
  }
  /// True when nothing is queued or compiling any more; a trial may still be open, for it advances
  /// only while the session runs.
  bool wait_idle(std::chrono::milliseconds timeout) {
    int32_t idle = 0;
    detail::call(&xc_session_wait_idle, handle(), int64_t{timeout.count()}, &idle);
    return idle != 0;
  }
  /// The current plan, with `shapes` (one per input) for those sizes; see xc_session_explain().
  std::string explain(bool json = false, std::span<const xc_shape> shapes = {}) {
    return detail::text_of(&xc_session_explain, handle(),
                           int32_t{json ? XC_EXPLAIN_JSON : XC_EXPLAIN_TEXT}, shapes.data(),
                           static_cast<uint32_t>(shapes.size()));
  }
  /// A snapshot of what the session has learnt so far.
  Profile profile() {
    xc_profile* out = nullptr;
    detail::call(&xc_session_profile, handle(), &out);
    return Profile(out);
  }
  /// The counters alone, cheap to ask often.
  xc_counters counters() {
    xc_counters out = XC_COUNTERS_INIT;
    detail::call(&xc_session_counters, handle(), &out);
    return out;
  }
  /// The past as a Chrome trace; see xc_session_trace().
  std::string trace() { return detail::text_of(&xc_session_trace, handle()); }
  Model model() const { return Model::adopt(xc_model_retain(xc_session_model(handle()))); }
  xc_session* handle() const { return handle_.get(); }

 private:
  template <class Function, class Inputs>
  void run_with(Function function, Inputs inputs, std::span<xc_tensor*> outputs,
                const xc_run_options* options) {
    detail::call(function, handle(), options, inputs.data(), static_cast<uint32_t>(inputs.size()),
                 outputs.data(), static_cast<uint32_t>(outputs.size()));
  }

  size_t outputs_ = 0;
  detail::Owner<xc_session, &xc_session_destroy> handle_;
};

}  // namespace xcrt
