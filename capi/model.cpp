// xc/model.h.

#include "runtime/model.h"

#include <fmt/ranges.h>

#include "capi/handles.h"

namespace xc::capi {

Port::Port(const PortInfo& info) : name(info.name), type(info.type.text()) {
  kind = static_cast<int32_t>(info.type.kind);
  if (info.type.kind != Type::Kind::kTensor) return;
  dtype = static_cast<xc_dtype>(info.type.dtype);
  if (!info.type.dims) return;
  rank = static_cast<int32_t>(info.type.dims->size());
  for (const Dim& dim : *info.type.dims) {
    dims.push_back(dim.constant().value_or(-1));
    texts.push_back(dim.text());
  }
}

xc_port Port::view() const {
  return {0, kind, to_view(name), to_view(type), dtype, rank, dims.data(), text_views.data()};
}

namespace {

std::vector<Port> ports_of(const std::vector<PortInfo>& infos) {
  std::vector<Port> out;
  out.reserve(infos.size());  // ports stay where they are: views point into them
  for (const PortInfo& info : infos) {
    Port& port = out.emplace_back(info);
    for (const std::string& text : port.texts) port.text_views.push_back(to_view(text));
  }
  return out;
}

void deliver(std::shared_ptr<const Model> model, xc_model** out_model) {
  auto handle = std::make_unique<xc_model>();
  handle->inputs = ports_of(model->inputs());
  handle->outputs = ports_of(model->outputs());
  handle->model = std::move(model);
  *out_model = handle.release();
}

void describe(const std::vector<Port>& ports, uint32_t index, xc_port* out_port) {
  if (index >= ports.size())
    fail(Status::kInvalidArgument, "no port {}: there are {}", index, ports.size());
  write_struct(out_port, ports[index].view(), "out_port");
}

uint32_t find(const std::vector<Port>& ports, std::string_view name, const char* what) {
  for (uint32_t i = 0; i < ports.size(); ++i)
    if (ports[i].name == name) return i;
  std::vector<std::string_view> names;
  for (const Port& port : ports) names.push_back(port.name);
  fail(Status::kNotFound, "the model has no {} '{}'; it has: {}", what, name,
       fmt::join(names, ", "));
}

bool alive(const xc_model* model) {
  return model && model->magic == xc_model::kMagic;
}

}  // namespace
}  // namespace xc::capi

using namespace xc;
using namespace xc::capi;

xc_status xc_model_load_file(xc_engine* engine, const char* path, xc_model** out_model,
                             xc_error** out_error) {
  return guard(out_error, [&] {
    need(out_model, "out_model");
    deliver(Model::load(live(engine).engine, std::string(need(path, "path"))), out_model);
  });
}

xc_status xc_model_load_bytes(xc_engine* engine, const void* data, uint64_t size,
                              xc_model** out_model, xc_error** out_error) {
  return guard(out_error, [&] {
    need(out_model, "out_model");
    need_array(data, size, "data");
    deliver(Model::load(live(engine).engine, std::span(static_cast<const std::byte*>(data), size)),
            out_model);
  });
}

xc_status xc_model_create(xc_engine* engine, const xc_graph* graph, xc_model** out_model,
                          xc_error** out_error) {
  return guard(out_error, [&] {
    need(out_model, "out_model");
    deliver(Model::create(live(engine).engine, live(graph).graph.clone()), out_model);
  });
}

xc_model* xc_model_retain(xc_model* model) {
  return retain(model);
}
void xc_model_release(xc_model* model) {
  release(model);
}

uint32_t xc_model_input_count(const xc_model* model) {
  return alive(model) ? static_cast<uint32_t>(model->inputs.size()) : 0;
}
uint32_t xc_model_output_count(const xc_model* model) {
  return alive(model) ? static_cast<uint32_t>(model->outputs.size()) : 0;
}

xc_status xc_model_input(const xc_model* model, uint32_t index, xc_port* out_port) {
  return guard(nullptr, [&] { describe(live(model).inputs, index, out_port); });
}
xc_status xc_model_output(const xc_model* model, uint32_t index, xc_port* out_port) {
  return guard(nullptr, [&] { describe(live(model).outputs, index, out_port); });
}

xc_status xc_model_find_input(const xc_model* model, const char* name, uint32_t* out_index,
                              xc_error** out_error) {
  return guard(out_error, [&] {
    *need(out_index, "out_index") = find(live(model).inputs, need(name, "name"), "input");
  });
}
xc_status xc_model_find_output(const xc_model* model, const char* name, uint32_t* out_index,
                               xc_error** out_error) {
  return guard(out_error, [&] {
    *need(out_index, "out_index") = find(live(model).outputs, need(name, "name"), "output");
  });
}

xc_status xc_model_graph(const xc_model* model, xc_graph** out_graph, xc_error** out_error) {
  return guard(out_error, [&] {
    need(out_graph, "out_graph");
    auto handle = std::make_unique<xc_graph>();
    const Engine& engine = *live(model).model->engine();
    handle->operators = {engine.operators(), engine.rules()};
    handle->graph = model->model->graph()->clone();
    *out_graph = handle.release();
  });
}
