// Models; see xc.hpp, and model.h for ownership and threads.
#pragma once

#include <xc/model.h>
#include <xc/engine.hpp>
#include <xc/graph.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace xcrt {

/// An input or output; text lives as long as the model.
struct Port {
  std::string_view name, type;
  int32_t kind = XC_PORT_TENSOR;
  xc_dtype dtype = XC_DTYPE_UNDEFINED;
  int32_t rank = -1;  ///< -1 = not known
  Dims dims;          ///< -1 where symbolic
  std::vector<std::string_view> dim_texts;
};

/// An immutable graph with its weights. Sessions share it.
class Model {
 public:
  /// From a file, which is mapped (copy_weights: read) and must not change while the model lives.
  Model(const Engine& engine, const std::string& path) {
    xc_model* handle = nullptr;
    detail::call(&xc_model_load_file, engine.handle(), path.c_str(), &handle);
    handle_.reset(handle);
  }
  /// From memory, which is copied.
  Model(const Engine& engine, std::span<const std::byte> bytes) {
    xc_model* handle = nullptr;
    detail::call(&xc_model_load_bytes, engine.handle(), static_cast<const void*>(bytes.data()),
                 static_cast<uint64_t>(bytes.size()), &handle);
    handle_.reset(handle);
  }
  /// From a graph, which may change afterwards.
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
      to.name = view(port.name);
      to.type = view(port.type);
      to.kind = port.kind;
      to.dtype = port.dtype;
      to.rank = port.rank;
      const size_t rank = port.rank < 0 ? 0 : static_cast<size_t>(port.rank);
      to.dims = {port.dims, rank};
      for (size_t axis = 0; axis < rank; ++axis) to.dim_texts.push_back(view(port.dim_texts[axis]));
    }
    return out;
  }
  detail::Owner<xc_model, &xc_model_release> handle_;
};

}  // namespace xcrt
