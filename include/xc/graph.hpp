// Graphs; see xc.hpp, and graph.h for ownership and threads.
#pragma once

#include <xc/graph.h>
#include <xc/operator.hpp>

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace xcrt {

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
    add_node(op, {inputs.begin(), inputs.size()}, {&out, 1}, out_node, name, domain);
    return out;
  }
  /// A node whose outputs, as many as there is room for, go to `outputs`.
  void add_node(const char* op, std::span<const xc_value> inputs, std::span<xc_value> outputs,
                xc_node* out_node = nullptr, const char* name = nullptr, const char* domain = "") {
    detail::call(&xc_graph_add_node, handle(), op, domain, name, inputs.data(),
                 static_cast<uint32_t>(inputs.size()), outputs.data(),
                 static_cast<uint32_t>(outputs.size()), out_node);
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
  void set(xc_node node, const char* name, std::span<const double> values) {
    detail::call(&xc_graph_set_floats, handle(), node, name, values.data(),
                 static_cast<uint64_t>(values.size()));
  }
  void set(xc_node node, const char* name, std::span<const char* const> values) {
    detail::call(&xc_graph_set_strings, handle(), node, name, values.data(),
                 static_cast<uint64_t>(values.size()));
  }
  void set(xc_node node, const char* name, const Tensor& value) {
    detail::call(&xc_graph_set_tensor, handle(), node, name,
                 static_cast<const xc_tensor*>(value.handle()));
  }
  /// Appends a copy of `body` as the node's next subgraph; see xc_graph_add_body().
  void add_body(xc_node node, const Graph& body, uint32_t capture_count = 0) {
    detail::call(&xc_graph_add_body, handle(), node, static_cast<const xc_graph*>(body.handle()),
                 capture_count);
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

/// Schedule steps over the text of a loop kernel; see xc_loop_schedule().
inline std::string loop_schedule(std::string_view text, const std::string& steps) {
  return detail::text_of(&xc_loop_schedule, text.data(), static_cast<uint64_t>(text.size()),
                         steps.c_str());
}

}  // namespace xcrt
