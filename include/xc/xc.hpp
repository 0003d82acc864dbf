// xc for C++20: owning types over the C interface, header only; nothing of it is in the library.
//
//   xcrt::Engine engine;
//   xcrt::Session session(xcrt::Model(engine, "digits.onnx"));
//   auto x = xcrt::Tensor::of<float>({1, 784});
//   std::ranges::copy(pixels, x.values<float>().begin());
//   std::vector<xcrt::Tensor> y = session.run(x);
//   use(y[0].values<float>(), y[0].dims());
//
// Every type owns one reference, is movable and not copyable (Tensor, Model and Engine have
// share()), and has handle() for what is not wrapped. Failures are thrown as xcrt::Error.
// Ownership, threads and the meaning of each function: the C header of the same name.
#pragma once

#include <xc/xc.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <complex>
#include <cstddef>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace xcrt {

/// A failed call: what() is the whole line, "INVALID_ARGUMENT: input x: ...".
class Error : public std::runtime_error {
 public:
  Error(xc_status status, const char* text, std::string where)
      : std::runtime_error(text), status_(status), where_(std::move(where)) {}
  xc_status status() const noexcept { return status_; }
  const char* status_name() const noexcept { return xc_status_name(status_); }
  const char* advice() const noexcept { return xc_status_advice(status_); }
  /// The node, input or position; empty when there is none.
  const std::string& where() const noexcept { return where_; }

 private:
  xc_status status_;
  std::string where_;
};

namespace detail {

[[noreturn]] inline void raise(xc_status status, xc_error* error) {
  if (!error) throw Error(status, xc_status_name(status), {});
  const std::unique_ptr<xc_error, decltype(&xc_error_destroy)> owner(error, &xc_error_destroy);
  throw Error(status, xc_error_text(error), xc_error_where(error));
}

/// Calls a C function with an xc_error** added at the end.
template <class Function, class... Args>
void call(Function function, Args... args) {
  xc_error* error = nullptr;
  if (const xc_status status = function(args..., &error)) raise(status, error);
}
inline void check(xc_status status) {
  if (status) raise(status, nullptr);
}

template <auto Function>
struct Deleter {
  template <class T>
  void operator()(T* handle) const noexcept {
    Function(handle);
  }
};
template <class T, auto Function>
using Owner = std::unique_ptr<T, Deleter<Function>>;

inline std::string_view view(xc_string_view text) {
  return {text.data, text.size};
}

/// A C function that delivers a blob, as a string.
template <class Function, class... Args>
std::string text_of(Function function, Args... args) {
  xc_blob* blob = nullptr;
  call(function, args..., &blob);
  const Owner<xc_blob, &xc_blob_destroy> owner(blob);
  return {xc_blob_data(blob), xc_blob_size(blob)};
}

}  // namespace detail

inline const char* runtime_version() {
  return xc_runtime_version();
}

/// The dtype of a C++ type; 0 for types that have none.
template <class T>
inline constexpr xc_dtype dtype_of = [] {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, float>)
    return XC_DTYPE_F32;
  else if constexpr (std::is_same_v<U, double>)
    return XC_DTYPE_F64;
  else if constexpr (std::is_same_v<U, bool>)
    return XC_DTYPE_BOOL;
  else if constexpr (std::is_same_v<U, std::complex<float>>)
    return XC_DTYPE_C64;
  else if constexpr (std::is_same_v<U, std::complex<double>>)
    return XC_DTYPE_C128;
  else if constexpr (std::is_integral_v<U> && std::is_signed_v<U>)
    return sizeof(U) == 1   ? XC_DTYPE_I8
           : sizeof(U) == 2 ? XC_DTYPE_I16
           : sizeof(U) == 4 ? XC_DTYPE_I32
                            : XC_DTYPE_I64;
  else if constexpr (std::is_integral_v<U>)
    return sizeof(U) == 1   ? XC_DTYPE_U8
           : sizeof(U) == 2 ? XC_DTYPE_U16
           : sizeof(U) == 4 ? XC_DTYPE_U32
                            : XC_DTYPE_U64;
  else
    return XC_DTYPE_UNDEFINED;
}();

// ---- settings and engine ------------------------------------------------------------------------

/// The knobs: fields by name, or through raw().
class Config {
 public:
  Config() = default;
  Config& set(const std::string& name, const std::string& value) {
    texts_.push_back(std::make_unique<std::string>(value));  // text values are kept by pointer
    detail::call(&xc_config_set, &raw_, name.c_str(), texts_.back()->c_str());
    return *this;
  }
  /// Reads the XC_* variables.
  Config& read_environment() {
    detail::call(&xc_config_read_environment, &raw_);
    return *this;
  }
  /// The value in effect, defaults filled in.
  std::string get(const std::string& name) const {
    return detail::text_of(&xc_config_get, &raw_, name.c_str());
  }
  xc_config& raw() { return raw_; }
  const xc_config& raw() const { return raw_; }

 private:
  xc_config raw_ = XC_CONFIG_INIT;
  std::vector<std::unique_ptr<std::string>> texts_;
};

/// What the host provides; an empty function is not installed. They must not throw.
struct Hooks {
  std::function<void(int32_t level, std::string_view message)> log = {};
  std::function<void(const xc_event&)> event = {};
};

class OpLibrary;

class Engine {
 public:
  /// `operators`: those of the host that models may use; see OpLibrary.
  explicit Engine(const Config& config = {}, Hooks hooks = {},
                  const OpLibrary* operators = nullptr) {
    xc_engine_options options = XC_ENGINE_OPTIONS_INIT;
    options.config = &config.raw();
    options.operators = handle_of(operators);
    // Each callback owns one half of the hooks; the engine owns both once it exists.
    auto log = std::make_unique<decltype(hooks.log)>(std::move(hooks.log));
    auto event = std::make_unique<decltype(hooks.event)>(std::move(hooks.event));
    if (*log)
      options.logger = {[](void* self, int32_t level, xc_string_view message) {
                          (*static_cast<decltype(hooks.log)*>(self))(level, detail::view(message));
                        },
                        log.get(),
                        [](void* self) { delete static_cast<decltype(hooks.log)*>(self); }};
    if (*event)
      options.events = {
          [](void* self, const xc_event* e) { (*static_cast<decltype(hooks.event)*>(self))(*e); },
          event.get(), [](void* self) { delete static_cast<decltype(hooks.event)*>(self); }};
    create(options);
    if (*log) (void)log.release();
    if (*event) (void)event.release();
  }
  explicit Engine(const xc_engine_options& options) { create(options); }
  Engine share() const { return Engine(xc_engine_retain(handle())); }
  xc_engine* handle() const { return handle_.get(); }
  std::string operators(bool json = false) const {
    return detail::text_of(&xc_engine_operators, handle(), int32_t{json});
  }

 private:
  explicit Engine(xc_engine* handle) : handle_(handle) {}
  static xc_op_library* handle_of(const OpLibrary* operators);
  void create(const xc_engine_options& options) {
    xc_engine* handle = nullptr;
    detail::call(&xc_engine_create, &options, &handle);
    handle_.reset(handle);
  }
  detail::Owner<xc_engine, &xc_engine_release> handle_;
};

// ---- tensors ------------------------------------------------------------------------------------

using Dims = std::span<const int64_t>;

class Tensor {
 public:
  Tensor() = default;  ///< none: an absent optional input
  /// New row-major memory, zeroed.
  Tensor(xc_dtype dtype, Dims dims) {
    xc_tensor* handle = nullptr;
    detail::call(&xc_tensor_create, dtype, static_cast<uint32_t>(dims.size()), dims.data(),
                 &handle);
    handle_.reset(handle);
  }
  template <class T>
  static Tensor of(std::initializer_list<int64_t> dims) {
    static_assert(dtype_of<T> != XC_DTYPE_UNDEFINED);
    return Tensor(dtype_of<T>, Dims(dims.begin(), dims.size()));
  }
  /// A copy of values under these dims.
  template <class T>
  static Tensor of(std::initializer_list<int64_t> dims, std::span<const T> values) {
    Tensor out = of<T>(dims);
    if (static_cast<size_t>(out.size()) != values.size())
      throw Error(XC_INVALID_ARGUMENT, "INVALID_ARGUMENT: values do not fill the dims", {});
    std::copy(values.begin(), values.end(), out.values<T>().begin());
    return out;
  }
  /// Row-major memory of the caller's, which must outlive the tensor.
  template <class T>
  static Tensor borrow(std::initializer_list<int64_t> dims, T* data) {
    const xc_tensor_view view{const_cast<std::remove_const_t<T>*>(data), dims.begin(), nullptr,
                              dtype_of<T>, static_cast<uint32_t>(dims.size())};
    return wrap(view, nullptr, nullptr);
  }
  static Tensor wrap(const xc_tensor_view& view, xc_destroy_fn release, void* user_data) {
    xc_tensor* handle = nullptr;
    detail::call(&xc_tensor_wrap, &view, release, user_data, &handle);
    return adopt(handle);
  }
  /// A sequence of these tensors; see xc_sequence_create().
  static Tensor sequence(std::span<const Tensor> elements) {
    std::vector<const xc_tensor*> handles;
    for (const Tensor& element : elements) handles.push_back(element.handle());
    xc_tensor* handle = nullptr;
    detail::call(&xc_sequence_create, handles.data(), handles.size(), &handle);
    return adopt(handle);
  }
  /// Element `index` of a sequence.
  Tensor element(uint64_t index) const {
    xc_tensor* out = nullptr;
    detail::call(&xc_sequence_element, handle(), index, &out);
    return adopt(out);
  }
  /// Takes over a reference that a C function gave.
  static Tensor adopt(xc_tensor* handle) {
    Tensor out;
    out.handle_.reset(handle);
    return out;
  }
  /// Gives the reference away: the caller releases it.
  xc_tensor* release() { return handle_.release(); }
  /// Another owner of the same tensor.
  Tensor share() const { return adopt(xc_tensor_retain(handle())); }

  xc_dtype dtype() const { return xc_tensor_dtype(handle()); }
  Dims dims() const { return {xc_tensor_dims(handle()), xc_tensor_rank(handle())}; }
  int64_t size() const { return xc_tensor_element_count(handle()); }
  void* data() const { return xc_tensor_data(handle()); }
  /// The elements of a row-major tensor of this type; fails with XC_INVALID_ARGUMENT for another.
  template <class T>
  std::span<T> values() const {
    if (dtype() != dtype_of<T> || !row_major())
      throw Error(XC_INVALID_ARGUMENT,
                  "INVALID_ARGUMENT: the tensor has another type or is not row-major", {});
    return {static_cast<T*>(data()), static_cast<size_t>(size())};
  }
  std::string_view string(uint64_t index) const {
    xc_string_view out{};
    detail::call(&xc_tensor_string, handle(), index, &out);
    return detail::view(out);
  }
  void set_strings(std::span<const std::string_view> values) {
    std::vector<xc_string_view> views;
    for (std::string_view value : values) views.push_back({value.data(), value.size()});
    detail::call(&xc_tensor_set_strings, handle(), views.data(), views.size());
  }
  bool row_major() const {
    const Dims d = dims();
    const int64_t* strides = xc_tensor_strides(handle());
    if (size() == 0) return true;
    int64_t step = 1;
    for (size_t axis = d.size(); axis-- > 0; step *= d[axis])
      if (d[axis] > 1 && strides[axis] != step) return false;
    return true;
  }
  explicit operator bool() const { return static_cast<bool>(handle_); }
  xc_tensor* handle() const { return handle_.get(); }

 private:
  detail::Owner<xc_tensor, &xc_tensor_release> handle_;
};

// ---- operators of the host ----------------------------------------------------------------------

/// One execution as the function of an operator sees it; valid during the function's call. Failures
/// are thrown and, when the function lets them pass, fail the run with their message.
class OpCall {
 public:
  explicit OpCall(xc_op_call* handle) : handle_(handle) {}
  const char* node() const { return xc_op_call_node(handle_); }
  uint32_t input_count() const { return xc_op_call_input_count(handle_); }
  uint32_t output_count() const { return xc_op_call_output_count(handle_); }

  /// Row-major; dtype 0 = absent.
  xc_tensor_view input(uint32_t index) const {
    xc_tensor_view out{};
    check(xc_op_call_input(handle_, index, &out));
    return out;
  }
  bool has(uint32_t index) const { return index < input_count() && input(index).dtype != 0; }
  Dims dims(uint32_t index) const {
    const xc_tensor_view view = input(index);
    return {view.dims, view.rank};
  }
  /// The elements of an input of this type; fails with XC_INVALID_ARGUMENT for another.
  template <class T>
  std::span<const T> values(uint32_t index) const {
    return span_of<const T>(input(index));
  }
  std::string_view string(uint32_t index, uint64_t element) const {
    xc_string_view out{};
    check(xc_op_call_input_string(handle_, index, element, &out));
    return detail::view(out);
  }

  bool wants(uint32_t index) const { return xc_op_call_wants(handle_, index) != 0; }
  /// The memory of an output whose sizes follow from the inputs, to be filled.
  xc_tensor_view output(uint32_t index) {
    xc_tensor_view out{};
    check(xc_op_call_output(handle_, index, &out));
    return out;
  }
  template <class T>
  std::span<T> result(uint32_t index) {
    return span_of<T>(output(index));
  }
  /// The same for sizes that the function has found.
  xc_tensor_view allocate(uint32_t index, Dims dims) {
    xc_tensor_view out{};
    check(
        xc_op_call_allocate(handle_, index, static_cast<uint32_t>(dims.size()), dims.data(), &out));
    return out;
  }
  template <class T>
  std::span<T> result(uint32_t index, std::initializer_list<int64_t> dims) {
    return span_of<T>(allocate(index, Dims(dims.begin(), dims.size())));
  }
  void set_strings(uint32_t index, std::span<const std::string_view> values) {
    std::vector<xc_string_view> views;
    for (std::string_view value : values) views.push_back({value.data(), value.size()});
    check(xc_op_call_set_strings(handle_, index, views.data(), views.size()));
  }

  /// Attributes or their defaults.
  bool has_attribute(const char* name) const { return xc_op_call_has(handle_, name) != 0; }
  int64_t get_int(const char* name) const {
    int64_t out = 0;
    check(xc_op_call_int(handle_, name, &out));
    return out;
  }
  double get_float(const char* name) const {
    double out = 0;
    check(xc_op_call_float(handle_, name, &out));
    return out;
  }
  std::string_view get_string(const char* name) const {
    xc_string_view out{};
    check(xc_op_call_string(handle_, name, &out));
    return detail::view(out);
  }
  std::span<const int64_t> get_ints(const char* name) const {
    const int64_t* values = nullptr;
    uint64_t count = 0;
    check(xc_op_call_ints(handle_, name, &values, &count));
    return {values, count};
  }
  std::span<const double> get_floats(const char* name) const {
    const double* values = nullptr;
    uint64_t count = 0;
    check(xc_op_call_floats(handle_, name, &values, &count));
    return {values, count};
  }
  std::vector<std::string_view> get_strings(const char* name) const {
    uint64_t count = 0;
    check(xc_op_call_strings(handle_, name, 0, nullptr, &count));
    std::vector<std::string_view> out(count);
    for (uint64_t i = 0; i < count; ++i) {
      xc_string_view text{};
      check(xc_op_call_strings(handle_, name, i, &text, nullptr));
      out[i] = detail::view(text);
    }
    return out;
  }
  xc_tensor_view get_tensor(const char* name) const {
    xc_tensor_view out{};
    check(xc_op_call_tensor(handle_, name, &out));
    return out;
  }
  xc_op_call* handle() const { return handle_; }

 private:
  friend class OpLibrary;
  /// A failure whose message the call keeps.
  struct Failed : Error {
    explicit Failed(xc_status status) : Error(status, xc_status_name(status), {}) {}
  };
  static void check(xc_status status) {
    if (status) throw Failed(status);
  }
  template <class T>
  std::span<T> span_of(const xc_tensor_view& view) const {
    static_assert(dtype_of<T> != XC_DTYPE_UNDEFINED);
    if (view.dtype != dtype_of<T>)
      throw Error(XC_INVALID_ARGUMENT, "the tensor has another element type", {});
    size_t count = 1;
    for (uint32_t axis = 0; axis < view.rank; ++axis) count *= static_cast<size_t>(view.dims[axis]);
    return {static_cast<T*>(view.data), count};
  }
  xc_op_call* handle_;
};

/// Operators of the host; operator.h has the language of signatures and rules.
class OpLibrary {
 public:
  OpLibrary() {
    xc_op_library* handle = nullptr;
    detail::call(&xc_op_library_create, &handle);
    handle_.reset(handle);
  }
  /// `function(OpCall&)` carries the operator out. What it throws fails the run with its text.
  template <class Function>
    requires std::is_invocable_v<const Function&, OpCall&>
  OpLibrary& add(const char* signature, Function function) {
    auto held = std::make_unique<const Function>(std::move(function));
    const xc_op_function callbacks{
        [](void* self, xc_op_call* handle) -> xc_status {
          try {
            OpCall call(handle);
            (*static_cast<const Function*>(self))(call);
            return XC_OK;
          } catch (const OpCall::Failed& failed) {
            return failed.status();
          } catch (const Error& error) {
            return xc_op_call_fail(handle, error.status(), error.what());
          } catch (const std::bad_alloc&) {
            return xc_op_call_fail(handle, XC_OUT_OF_MEMORY, "the function ran out of memory");
          } catch (const std::exception& error) {
            return xc_op_call_fail(handle, XC_INVALID_ARGUMENT, error.what());
          } catch (...) {
            return xc_op_call_fail(handle, XC_INVALID_ARGUMENT, "the function threw");
          }
        },
        const_cast<Function*>(held.get()),
        [](void* self) { delete static_cast<const Function*>(self); }};
    detail::call(&xc_op_library_add, handle(), signature, &callbacks);
    (void)held.release();
    return *this;
  }
  /// An operator that rules alone give a meaning.
  OpLibrary& add(const char* signature) {
    detail::call(&xc_op_library_add, handle(), signature,
                 static_cast<const xc_op_function*>(nullptr));
    return *this;
  }
  OpLibrary& add_rules(const char* rules) {
    detail::call(&xc_op_library_add_rules, handle(), rules);
    return *this;
  }
  xc_op_library* handle() const { return handle_.get(); }

 private:
  detail::Owner<xc_op_library, &xc_op_library_release> handle_;
};

inline xc_op_library* Engine::handle_of(const OpLibrary* operators) {
  return operators ? operators->handle() : nullptr;
}

// ---- graphs and models --------------------------------------------------------------------------

/// A model under construction, see graph.h.
class Graph {
 public:
  explicit Graph(const char* name = nullptr) {
    xc_graph* handle = nullptr;
    detail::call(&xc_graph_create, name, &handle);
    handle_.reset(handle);
  }
  static Graph load(const std::string& path, bool copy_weights = false,
                    const OpLibrary* operators = nullptr) {
    xc_graph* handle = nullptr;
    detail::call(&xc_graph_load_file, path.c_str(), int32_t{copy_weights},
                 operators ? operators->handle() : nullptr, &handle);
    return Graph(handle);
  }
  static Graph load(std::span<const std::byte> bytes, const OpLibrary* operators = nullptr) {
    xc_graph* handle = nullptr;
    detail::call(&xc_graph_load_bytes, static_cast<const void*>(bytes.data()),
                 static_cast<uint64_t>(bytes.size()), operators ? operators->handle() : nullptr,
                 &handle);
    return Graph(handle);
  }
  /// Operators of the host beside the standard ones.
  void set_operators(const OpLibrary& operators) {
    detail::call(&xc_graph_set_operators, handle(), operators.handle());
  }
  void save(const std::string& path) const {
    detail::call(&xc_graph_save_file, handle(), path.c_str());
  }
  std::string text(int64_t max_elements = 0) const {
    return detail::text_of(&xc_graph_text, handle(), max_elements);
  }
  void run_passes(const std::string& passes) {
    detail::call(&xc_graph_run_passes, handle(), passes.c_str());
  }

  xc_value input(const char* name, xc_dtype dtype, const char* dims) {
    xc_value out = 0;
    detail::call(&xc_graph_add_input, handle(), name, dtype, dims, &out);
    return out;
  }
  xc_value constant(const Tensor& tensor, const char* name = nullptr) {
    xc_value out = 0;
    detail::call(&xc_graph_add_constant, handle(), name,
                 static_cast<const xc_tensor*>(tensor.handle()), &out);
    return out;
  }
  /// A node with one output; its number goes to out_node, for attributes.
  xc_value node(const char* op, std::initializer_list<xc_value> inputs, xc_node* out_node = nullptr,
                const char* name = nullptr, const char* domain = "") {
    xc_value out = 0;
    detail::call(&xc_graph_add_node, handle(), op, domain, name, inputs.begin(),
                 static_cast<uint32_t>(inputs.size()), &out, 1u, out_node);
    return out;
  }
  void set(xc_node node, const char* name, int64_t value) {
    detail::call(&xc_graph_set_int, handle(), node, name, value);
  }
  void set(xc_node node, const char* name, int value) { set(node, name, int64_t{value}); }
  void set(xc_node node, const char* name, double value) {
    detail::call(&xc_graph_set_float, handle(), node, name, value);
  }
  void set(xc_node node, const char* name, const char* value) {
    detail::call(&xc_graph_set_string, handle(), node, name, value);
  }
  void set(xc_node node, const char* name, std::span<const int64_t> values) {
    detail::call(&xc_graph_set_ints, handle(), node, name, values.data(),
                 static_cast<uint64_t>(values.size()));
  }
  void output(xc_value value, const char* name = nullptr) {
    detail::call(&xc_graph_add_output, handle(), value, name);
  }
  xc_graph* handle() const { return handle_.get(); }

 private:
  friend class Model;
  explicit Graph(xc_graph* handle) : handle_(handle) {}
  detail::Owner<xc_graph, &xc_graph_destroy> handle_;
};

/// An input or output; text lives as long as the model.
struct Port {
  std::string_view name, type;
  int32_t kind = XC_PORT_TENSOR;
  xc_dtype dtype = XC_DTYPE_UNDEFINED;
  int32_t rank = -1;  ///< -1 = not known
  Dims dims;          ///< -1 where symbolic
  std::vector<std::string_view> dim_texts;
};

class Model {
 public:
  Model(const Engine& engine, const std::string& path) {
    xc_model* handle = nullptr;
    detail::call(&xc_model_load_file, engine.handle(), path.c_str(), &handle);
    handle_.reset(handle);
  }
  Model(const Engine& engine, std::span<const std::byte> bytes) {
    xc_model* handle = nullptr;
    detail::call(&xc_model_load_bytes, engine.handle(), static_cast<const void*>(bytes.data()),
                 static_cast<uint64_t>(bytes.size()), &handle);
    handle_.reset(handle);
  }
  Model(const Engine& engine, const Graph& graph) {
    xc_model* handle = nullptr;
    detail::call(&xc_model_create, engine.handle(), static_cast<const xc_graph*>(graph.handle()),
                 &handle);
    handle_.reset(handle);
  }
  /// Takes over a reference that a C function gave.
  static Model adopt(xc_model* handle) { return Model(handle); }
  Model share() const { return adopt(xc_model_retain(handle())); }

  std::vector<Port> inputs() const {
    return ports(xc_model_input_count(handle()), &xc_model_input);
  }
  std::vector<Port> outputs() const {
    return ports(xc_model_output_count(handle()), &xc_model_output);
  }
  uint32_t input_index(const std::string& name) const {
    uint32_t out = 0;
    detail::call(&xc_model_find_input, static_cast<const xc_model*>(handle()), name.c_str(), &out);
    return out;
  }
  uint32_t output_index(const std::string& name) const {
    uint32_t out = 0;
    detail::call(&xc_model_find_output, static_cast<const xc_model*>(handle()), name.c_str(), &out);
    return out;
  }
  /// The optimised graph.
  Graph graph() const {
    xc_graph* out = nullptr;
    detail::call(&xc_model_graph, static_cast<const xc_model*>(handle()), &out);
    return Graph(out);
  }
  xc_model* handle() const { return handle_.get(); }

 private:
  explicit Model(xc_model* handle) : handle_(handle) {}
  template <class Describe>
  std::vector<Port> ports(uint32_t count, Describe describe) const {
    std::vector<Port> out;
    for (uint32_t i = 0; i < count; ++i) {
      xc_port port = XC_PORT_INIT;
      detail::check(describe(handle(), i, &port));
      Port& to = out.emplace_back();
      to.name = detail::view(port.name);
      to.type = detail::view(port.type);
      to.kind = port.kind;
      to.dtype = port.dtype;
      to.rank = port.rank;
      const size_t rank = port.rank < 0 ? 0 : static_cast<size_t>(port.rank);
      to.dims = {port.dims, rank};
      for (size_t axis = 0; axis < rank; ++axis)
        to.dim_texts.push_back(detail::view(port.dim_texts[axis]));
    }
    return out;
  }
  detail::Owner<xc_model, &xc_model_release> handle_;
};

// ---- sessions, calls, profiles ------------------------------------------------------------------

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

/// Entries of a persistent cache: `visit(const xc_cache_entry&)` for each, in the order of names.
/// What it throws comes out as it is; no entry is visited after that.
template <class Visit>
void visit_cache(const std::string& directory, Visit visit) {
  struct Visitor {
    Visit& visit;
    std::exception_ptr thrown;
  } visitor{visit, nullptr};
  detail::call(
      &xc_cache_visit, directory.c_str(),
      [](void* user_data, const xc_cache_entry* entry) {
        Visitor& self = *static_cast<Visitor*>(user_data);
        if (self.thrown) return;
        try {
          self.visit(*entry);
        } catch (...) {
          self.thrown = std::current_exception();
        }
      },
      static_cast<void*>(&visitor));
  if (visitor.thrown) std::rethrow_exception(visitor.thrown);
}

struct PrunedCache {
  int64_t removed = 0;     ///< files
  int64_t left_bytes = 0;  ///< of entries
};
/// Makes room in a persistent cache; 0 removes everything.
inline PrunedCache prune_cache(const std::string& directory, int64_t max_bytes) {
  PrunedCache out;
  detail::call(&xc_cache_prune, directory.c_str(), max_bytes, &out.removed, &out.left_bytes);
  return out;
}

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
  void run_into(std::span<const xc_tensor* const> inputs, std::span<xc_tensor*> outputs,
                const RunOptions& options = {}) {
    const xc_run_options raw = options.raw();
    detail::call(&xc_session_run, handle(), &raw, inputs.data(),
                 static_cast<uint32_t>(inputs.size()), outputs.data(),
                 static_cast<uint32_t>(outputs.size()));
  }

  /// Binds inputs, and outputs of the call's own, for repeated runs.
  template <class... T>
    requires(std::is_same_v<std::remove_cvref_t<T>, Tensor> && ...)
  Call prepare(const T&... inputs) {
    const std::array<const xc_tensor*, sizeof...(T)> handles{inputs.handle()...};
    xc_call* call = nullptr;
    detail::call(&xc_session_prepare, handle(), handles.data(),
                 static_cast<uint32_t>(handles.size()), static_cast<xc_tensor* const*>(nullptr), 0u,
                 &call);
    return Call(call);
  }

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
  std::string explain(bool json = false, std::span<const xc_shape> shapes = {}) {
    return detail::text_of(&xc_session_explain, handle(),
                           int32_t{json ? XC_EXPLAIN_JSON : XC_EXPLAIN_TEXT}, shapes.data(),
                           static_cast<uint32_t>(shapes.size()));
  }
  Profile profile() {
    xc_profile* out = nullptr;
    detail::call(&xc_session_profile, handle(), &out);
    return Profile(out);
  }
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
  size_t outputs_ = 0;
  detail::Owner<xc_session, &xc_session_destroy> handle_;
};

}  // namespace xcrt
