#include "support/sessions.h"

#include <cmath>

#include "ir/text.h"
#include "runtime/tensor_handle.h"
#include "tier/engine_factory.h"

namespace xc::testing {

Config config_in(JitMode mode) {
  Config config;
  config.jit = static_cast<int64_t>(mode);
  return config;
}

std::shared_ptr<Session> session_of(const std::string& text, Config config) {
  if (config.threads == 0) config.threads = 1;
  return std::make_shared<Session>(Model::create(create_engine(config, {}), parse_graph(text)),
                                   Config{});
}

std::string with_type(std::string text, const std::string& type) {
  for (size_t at; (at = text.find("$T")) != std::string::npos;) text.replace(at, 2, type);
  return text;
}

namespace {

/// Copies of what a run left in its handles, which are released.
std::vector<Tensor> taken_out(const std::vector<xc_tensor*>& handles) {
  std::vector<Tensor> out;
  for (xc_tensor* handle : handles) {
    out.push_back(handle->tensor.clone());
    handle->release();
  }
  return out;
}

}  // namespace

std::vector<Tensor> run(Session& session, const std::vector<Tensor>& inputs) {
  std::vector<TensorView> views;
  for (const Tensor& t : inputs) views.push_back(t.view());
  std::vector<xc_tensor*> slots(session.model().outputs().size(), nullptr);
  session.run(views, slots, {});
  return taken_out(slots);
}

Status status_of(Session& session, const std::vector<Tensor>& inputs) {
  try {
    run(session, inputs);
  } catch (const Error& error) {
    return error.status();
  }
  return Status::kOk;
}

std::vector<Tensor> run_in_memory_of_inputs(Session& session, const std::vector<Tensor>& inputs,
                                            const std::vector<Tensor>& like, int64_t* shared) {
  std::vector<Tensor> copies;
  std::vector<TensorView> views;
  for (const Tensor& t : inputs) views.push_back(copies.emplace_back(t.clone()).view());
  std::vector<xc_tensor*> slots(like.size(), nullptr);
  std::vector<bool> taken(inputs.size(), false);
  for (size_t k = 0; k < like.size(); ++k)
    for (size_t i = 0; i < copies.size() && !slots[k]; ++i) {
      if (taken[i] || holds_objects(like[k].dtype()) || holds_objects(copies[i].dtype()) ||
          copies[i].byte_size() != like[k].byte_size() || like[k].count() == 0)
        continue;
      taken[i] = true;
      slots[k] = new xc_tensor;
      slots[k]->tensor = Tensor(copies[i].buffer(), 0, like[k].dtype(), like[k].dims());
      ++*shared;
    }
  try {
    session.run(views, slots, {});
  } catch (...) {
    for (xc_tensor* handle : slots)
      if (handle) handle->release();
    throw;
  }
  return taken_out(slots);
}

Tensor ramp(Dims dims, double scale, double shift) {
  Tensor t(DType::kF32, std::move(dims));
  for (int64_t i = 0; i < t.count(); ++i)
    t.as<float>()[i] = static_cast<float>(std::sin(static_cast<double>(i) * 0.37 + shift) * scale);
  return t;
}

}  // namespace xc::testing
