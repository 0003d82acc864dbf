// xc/session.h and xc/call.h.

#include "runtime/session.h"

#include <chrono>
#include <new>

#include "base/clock.h"
#include "capi/handles.h"

xc_call::~xc_call() {
  call.reset();  // before the memory that it is bound to
  for (xc_tensor* tensor : held) tensor->release();
}

namespace xc::capi {
namespace {

/// Room for n objects: on the stack up to kInline, so that a run of an ordinary model allocates
/// nothing; on the heap beyond.
template <class T, size_t kInline>
class Scratch {
 public:
  explicit Scratch(size_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    if (count > kInline) {
      heap_ = std::make_unique<std::byte[]>(checked_size(count));
      data_ = reinterpret_cast<T*>(heap_.get());
    }
  }
  T* data() { return data_; }

 private:
  static size_t checked_size(size_t count) {
    return static_cast<size_t>(checked_mul(static_cast<int64_t>(count), sizeof(T)));
  }
  alignas(T) std::byte inline_[kInline * sizeof(T)];  // uninitialised on purpose
  std::unique_ptr<std::byte[]> heap_;
  T* data_ = reinterpret_cast<T*>(inline_);
};
using Views = Scratch<TensorView, kPortsOnStack>;
using Strides = Scratch<int64_t, 8 * kPortsOnStack>;

RunOptions to_run_options(const xc_run_options* given) {
  RunOptions options;
  if (!given) return options;
  const xc_run_options defaults = XC_RUN_OPTIONS_INIT;
  const xc_run_options read = read_struct(given, defaults, "options");
  if (read.flags & ~static_cast<uint32_t>(XC_RUN_NO_COMPILE | XC_RUN_NO_ALLOC))
    fail(Status::kUnsupported, "unknown run flags {:#x}", read.flags);
  options.no_compile = read.flags & XC_RUN_NO_COMPILE;
  options.no_alloc = read.flags & XC_RUN_NO_ALLOC;
  if (read.timeout_ns < 0)
    fail(Status::kInvalidArgument, "timeout_ns is negative: {}", read.timeout_ns);
  if (read.timeout_ns > 0) {  // the largest ones mean "without end"
    const int64_t now = steady_ns();
    options.deadline_ns = read.timeout_ns > INT64_MAX - now ? INT64_MAX : now + read.timeout_ns;
  }
  if (read.cancel) options.cancel = &live(read.cancel).flag;
  return options;
}

/// At most a hundred years, which clocks can add to now.
std::chrono::milliseconds to_wait(int64_t timeout_ms) {
  if (timeout_ms < 0) fail(Status::kInvalidArgument, "timeout_ms is negative: {}", timeout_ms);
  return std::chrono::milliseconds(std::min<int64_t>(timeout_ms, 3'000'000'000'000));
}

/// Before an array is read: a count that cannot be right is told instead of followed.
void check_count(uint32_t count, size_t wanted, const char* what) {
  if (count > wanted)
    fail(Status::kInvalidArgument, "{} {} given, the model has {}", count, what, wanted);
}

void fill_views(const xc_tensor* const* tensors, uint32_t count, TensorView* out) {
  need_array(tensors, count, "inputs");
  for (uint32_t i = 0; i < count; ++i)
    new (&out[i]) TensorView(tensors[i] ? view_of(tensors[i], "inputs") : TensorView{});
}

void check_outputs(xc_tensor* const* outputs, uint32_t count) {
  need_array(outputs, count, "outputs");
  for (uint32_t i = 0; i < count; ++i)
    if (outputs[i]) view_of(outputs[i], "outputs");
}

/// A run of a session that is alive, on inputs that are views by now.
void run(const xc_session& session, std::span<const TensorView> inputs, xc_tensor** outputs,
         uint32_t output_count, const xc_run_options* options) {
  check_count(output_count, session.model->outputs.size(), "outputs");
  check_outputs(outputs, output_count);
  session.session->run(inputs, {outputs, output_count}, to_run_options(options));
}

/// The time in which a call is one run's; fails with kBusy within another's.
class Turn {
 public:
  explicit Turn(std::atomic<bool>& running) : running_(running) {
    if (running_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      fail(Status::kBusy,
           "the call is being run already, by another thread or around this function: prepare one "
           "for each");
  }
  ~Turn() { running_.store(false, std::memory_order_release); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::atomic<bool>& running_;
};

std::vector<Dims> to_shapes(const xc_shape* shapes, uint32_t count) {
  std::vector<Dims> out;
  for (uint32_t i = 0; i < count; ++i) {
    need_array(shapes[i].dims, shapes[i].rank, "shapes[].dims");
    if (shapes[i].rank > kMaxRank)
      fail(Status::kLimit, "shapes[{}]: rank {} is over the limit of {}", i, shapes[i].rank,
           kMaxRank);
    out.emplace_back(shapes[i].dims, shapes[i].dims + shapes[i].rank);
  }
  return out;
}

/// How many strides the views leave to us.
size_t missing_strides(const xc_tensor_view* views, uint32_t count) {
  size_t missing = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (views[i].dtype == XC_DTYPE_UNDEFINED) continue;
    if (views[i].rank > kMaxRank)
      fail(Status::kLimit, "input {}: rank {} is over the limit of {}", i, views[i].rank, kMaxRank);
    if (!views[i].strides) missing += views[i].rank;
  }
  return missing;
}

/// Checks one view of the caller; `room` receives row-major strides when it has none.
TensorView to_view(const xc_tensor_view& view, uint32_t index, int64_t*& room) {
  if (view.dtype == XC_DTYPE_UNDEFINED) return {};
  if (view.dtype < 0 || view.dtype >= kDTypeCount)
    fail(Status::kInvalidArgument, "input {}: {} is no element type of a view", index, view.dtype);
  if (view.rank != 0 && !view.dims) fail(Status::kInvalidArgument, "input {}: dims is null", index);
  bool empty = false;
  for (uint32_t axis = 0; axis < view.rank; ++axis) {
    if (view.dims[axis] < 0)
      fail(Status::kInvalidArgument, "input {}: dim {} is negative: {}", index, axis,
           view.dims[axis]);
    empty = empty || view.dims[axis] == 0;
  }
  if (!view.data && !empty) fail(Status::kInvalidArgument, "input {}: data is null", index);
  if (!is_aligned(view.data, static_cast<DType>(view.dtype)))
    fail(Status::kInvalidArgument, "input {}: data of {} is not aligned to its elements", index,
         name(static_cast<DType>(view.dtype)));
  const int64_t* strides = view.strides;
  if (!strides) {
    int64_t step = 1;
    for (uint32_t axis = view.rank; axis-- > 0;) {
      room[axis] = step;
      step = checked_mul(step, view.dims[axis] == 0 ? 1 : view.dims[axis]);
    }
    strides = room;
    room += view.rank;
  }
  return {view.data, static_cast<DType>(view.dtype), {view.dims, view.rank}, {strides, view.rank}};
}

}  // namespace
}  // namespace xc::capi

using namespace xc;
using namespace xc::capi;

void xc_session_options_init(xc_session_options* options, size_t size) {
  const xc_session_options defaults = XC_SESSION_OPTIONS_INIT;
  init_struct(options, size, defaults);
}
void xc_run_options_init(xc_run_options* options, size_t size) {
  const xc_run_options defaults = XC_RUN_OPTIONS_INIT;
  init_struct(options, size, defaults);
}

xc_status xc_session_create(xc_model* model, const xc_session_options* options,
                            xc_session** out_session, xc_error** out_error) {
  return guard(out_error, [&] {
    need(out_session, "out_session");
    live(model);
    const xc_session_options defaults = XC_SESSION_OPTIONS_INIT;
    const xc_session_options given = read_struct(options, defaults, "options");
    auto handle = std::make_unique<xc_session>();
    handle->session = std::make_shared<Session>(model->model, to_config(given.config));
    handle->model = retain(model);
    *out_session = handle.release();
  });
}

void xc_session_destroy(xc_session* session) {
  destroy(session);
}

xc_model* xc_session_model(const xc_session* session) {
  return session && session->magic == xc_session::kMagic ? session->model : nullptr;
}

xc_status xc_session_run(xc_session* session, const xc_run_options* options,
                         const xc_tensor* const* inputs, uint32_t input_count, xc_tensor** outputs,
                         uint32_t output_count, xc_error** out_error) {
  return guard_run(out_error, [&] {
    check_count(input_count, live(session).model->inputs.size(), "inputs");
    Views views(input_count);
    fill_views(inputs, input_count, views.data());
    run(*session, {views.data(), input_count}, outputs, output_count, options);
  });
}

xc_status xc_session_run_views(xc_session* session, const xc_run_options* options,
                               const xc_tensor_view* inputs, uint32_t input_count,
                               xc_tensor** outputs, uint32_t output_count, xc_error** out_error) {
  return guard_run(out_error, [&] {
    check_count(input_count, live(session).model->inputs.size(), "inputs");
    need_array(inputs, input_count, "inputs");
    Views views(input_count);
    Strides strides(missing_strides(inputs, input_count));
    int64_t* room = strides.data();
    for (uint32_t i = 0; i < input_count; ++i)
      new (&views.data()[i]) TensorView(to_view(inputs[i], i, room));
    run(*session, {views.data(), input_count}, outputs, output_count, options);
  });
}

xc_status xc_session_prepare(xc_session* session, const xc_tensor* const* inputs,
                             uint32_t input_count, xc_tensor* const* outputs, uint32_t output_count,
                             xc_call** out_call, xc_error** out_error) {
  return guard(out_error, [&] {
    need(out_call, "out_call");
    check_count(input_count, live(session).model->inputs.size(), "inputs");
    Views views(input_count);
    fill_views(inputs, input_count, views.data());
    const size_t outputs_wanted = session->model->outputs.size();
    if (outputs && output_count != outputs_wanted)
      fail(Status::kInvalidArgument, "{} outputs given, the model has {}", output_count,
           outputs_wanted);
    if (outputs) check_outputs(outputs, output_count);

    auto handle = std::make_unique<xc_call>();
    handle->session = session->session;
    auto hold = [&](xc_tensor* tensor) {
      if (!tensor) return;
      handle->held.push_back(tensor);
      tensor->retain();
    };
    for (uint32_t i = 0; i < input_count; ++i) hold(const_cast<xc_tensor*>(inputs[i]));
    for (uint32_t i = 0; outputs && i < output_count; ++i) hold(outputs[i]);
    handle->call = session->session->prepare(
        {views.data(), input_count}, outputs ? std::span<xc_tensor* const>(outputs, output_count)
                                             : std::span<xc_tensor* const>{});
    *out_call = handle.release();
  });
}

xc_status xc_call_run(xc_call* call, xc_error** out_error) {
  return guard_run(out_error, [&] {
    const Turn turn(live(call).running);
    call->call->run();
  });
}

uint32_t xc_call_output_count(const xc_call* call) {
  return call && call->magic == xc_call::kMagic ? static_cast<uint32_t>(call->call->output_count())
                                                : 0;
}

xc_tensor* xc_call_output(const xc_call* call, uint32_t index) {
  return index < xc_call_output_count(call) ? call->call->output(index) : nullptr;
}

void xc_call_destroy(xc_call* call) {
  destroy(call);
}

xc_status xc_cancel_create(xc_cancel** out_cancel) {
  return guard(nullptr, [&] {
    need(out_cancel, "out_cancel");
    *out_cancel = new xc_cancel;
  });
}
void xc_cancel_set(xc_cancel* cancel) {
  if (cancel && cancel->magic == xc_cancel::kMagic) cancel->flag.store(true);
}
void xc_cancel_reset(xc_cancel* cancel) {
  if (cancel && cancel->magic == xc_cancel::kMagic) cancel->flag.store(false);
}
void xc_cancel_destroy(xc_cancel* cancel) {
  destroy(cancel);
}

xc_status xc_session_freeze(xc_session* session, xc_error** out_error) {
  return guard(out_error, [&] { live(session).session->freeze(); });
}

xc_status xc_session_wait_idle(xc_session* session, int64_t timeout_ms, int32_t* out_idle,
                               xc_error** out_error) {
  return guard(out_error, [&] {
    live(session);
    need(out_idle, "out_idle");
    *out_idle = session->session->wait_idle(to_wait(timeout_ms)) ? 1 : 0;
  });
}

xc_status xc_session_warm_up(xc_session* session, const xc_shape* shapes, uint32_t shape_count,
                             int64_t timeout_ms, int32_t* out_done, xc_error** out_error) {
  return guard(out_error, [&] {
    live(session);
    need_array(shapes, shape_count, "shapes");
    check_count(shape_count, session->model->inputs.size(), "shapes");
    const bool done =
        session->session->warm_up(to_shapes(shapes, shape_count), to_wait(timeout_ms));
    if (out_done) *out_done = done ? 1 : 0;
  });
}

xc_status xc_session_explain(xc_session* session, int32_t format, const xc_shape* shapes,
                             uint32_t shape_count, xc_blob** out_text, xc_error** out_error) {
  return guard(out_error, [&] {
    live(session);
    need(out_text, "out_text");
    need_array(shapes, shape_count, "shapes");
    if (format != XC_EXPLAIN_TEXT && format != XC_EXPLAIN_JSON)
      fail(Status::kInvalidArgument, "{} is no explain format", format);
    const size_t inputs = session->model->inputs.size();
    if (shape_count != 0 && shape_count != inputs)
      fail(Status::kInvalidArgument, "{} shapes given, the model has {} inputs", shape_count,
           inputs);
    *out_text = make_blob(
        session->session->explain(to_shapes(shapes, shape_count), format == XC_EXPLAIN_JSON));
  });
}

xc_status xc_session_counters(xc_session* session, xc_counters* out_counters,
                              xc_error** out_error) {
  return guard(out_error, [&] {
    write_struct(out_counters, to_c(live(session).session->counters()), "out_counters");
  });
}

xc_status xc_session_trace(xc_session* session, xc_blob** out_json, xc_error** out_error) {
  return guard(out_error, [&] {
    need(out_json, "out_json");
    *out_json = make_blob(live(session).session->trace());
  });
}

xc_status xc_session_profile(xc_session* session, xc_profile** out_profile, xc_error** out_error) {
  return guard(out_error, [&] {
    need(out_profile, "out_profile");
    auto handle = std::make_unique<xc_profile>();
    handle->summary = live(session).session->profile();
    *out_profile = handle.release();
  });
}
