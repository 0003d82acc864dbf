// xc/operator.h: libraries of the host's operators, and the calls their functions see.

#include "capi/handles.h"
#include "capi/hook.h"

namespace xc::capi {
namespace {

using Function = Hook<xc_op_function>;

void compute(const Function& function, OpCall& call) {
  xc_op_call handle;
  handle.call = &call;
  const xc_status status = function.call(function.callbacks.compute, &handle);
  if (status == XC_OK) return;
  if (status == handle.status) throw Error(static_cast<Status>(status), handle.message);
  const bool known = status > XC_OK && status <= XC_INTERNAL;
  fail(known ? static_cast<Status>(status) : Status::kInvalidArgument,
       "the function of {} returned {}", call.op().name,
       known ? std::string(xc_status_name(status)) : fmt::format("{}, no status", status));
}

OpLibrary& filling(xc_op_library* library) {
  if (live(library).in_use)
    fail(Status::kBusy, "an engine or graph has the library already: it does not change any more");
  return *library->library;
}

/// Runs the body of a call's function; its failure is kept for the run.
template <class Body>
xc_status kept(xc_op_call* call, Body&& body) noexcept {
  if (!call || call->magic != xc_op_call::kMagic) return XC_INVALID_ARGUMENT;
  xc_error* error = nullptr;
  const xc_status status = guard(&error, [&] { body(*call->call); });
  if (status == XC_OK) return status;
  (void)xc_op_call_fail(call, status, xc_error_message(error));
  xc_error_destroy(error);
  return status;
}

OpCall* alive(const xc_op_call* call) {
  return call && call->magic == xc_op_call::kMagic ? call->call : nullptr;
}

const std::string* strings_of(const TensorView& view, const char* what) {
  if (view.dtype != DType::kString)
    fail(Status::kInvalidArgument, "the {} is {}, no strings", what,
         view ? name(view.dtype) : std::string_view("absent"));
  return view.as<std::string>();
}

template <class T>
const T& attribute(const OpCall& call, const char* name, AttrKind kind) {
  const Attr* attr = call.attr(need(name, "name"), kind);
  if (!attr) fail(Status::kNotFound, "attribute '{}' is not set", name);
  return std::get<T>(*attr);
}

/// An attribute of strings, or of a tensor of them.
std::span<const std::string> texts(const OpCall& call, const char* name) {
  const auto& declared = call.op().signature.attrs;
  const auto is_tensor = [&](const auto& attr) {
    return attr.name == need(name, "name") && attr.kind == AttrKind::kTensor;
  };
  if (std::none_of(declared.begin(), declared.end(), is_tensor))
    return attribute<std::vector<std::string>>(call, name, AttrKind::kStrings);
  const TensorView view = attribute<Tensor>(call, name, AttrKind::kTensor).view();
  return {strings_of(view, "attribute"), static_cast<size_t>(view.count())};
}

template <class T>
xc_status list(xc_op_call* call, const char* name, AttrKind kind, const T** out_values,
               uint64_t* out_count) {
  return kept(call, [&](OpCall& c) {
    need(out_values, "out_values");
    need(out_count, "out_count");
    const auto& values = attribute<std::vector<T>>(c, name, kind);
    *out_values = values.data();
    *out_count = values.size();
  });
}

}  // namespace

HostOperators operators_of(xc_op_library* library) {
  if (!library) return {};
  return {live(library).library, library->rules};
}

void put_to_use(xc_op_library* library) noexcept {
  if (library) library->in_use.store(true);
}

}  // namespace xc::capi

using namespace xc;
using namespace xc::capi;

xc_status xc_op_library_create(xc_op_library** out_library, xc_error** out_error) {
  return guard(out_error, [&] {
    need(out_library, "out_library");
    *out_library = std::make_unique<xc_op_library>().release();
  });
}

xc_status xc_op_library_add(xc_op_library* library, const char* signature,
                            const xc_op_function* function, xc_error** out_error) {
  return guard(out_error, [&] {
    OpLibrary& to = filling(library);
    need(signature, "signature");
    if (!function) {
      to.add(signature, {});
      return;
    }
    if (!function->compute) fail_null("function.compute");
    auto held = std::make_shared<Function>(*function);
    to.add(signature, [held](OpCall& call) { compute(*held, call); });
    held->armed = true;
  });
}

xc_status xc_op_library_add_rules(xc_op_library* library, const char* rules, xc_error** out_error) {
  return guard(out_error, [&] {
    const OpLibrary& ops = filling(library);
    RuleSet more = *library->rules;
    more.add(need(rules, "rules"), &ops);
    if (more.notes().size() > library->rules->notes().size())
      fail(Status::kFormat, "{}; operators are declared before the rules that use them",
           more.notes().back());
    *library->rules = std::move(more);
  });
}

xc_op_library* xc_op_library_retain(xc_op_library* library) {
  return retain(library);
}
void xc_op_library_release(xc_op_library* library) {
  release(library);
}

const char* xc_op_call_node(const xc_op_call* call) {
  return alive(call) ? call->call->node().name.c_str() : "";
}
uint32_t xc_op_call_input_count(const xc_op_call* call) {
  return alive(call) ? static_cast<uint32_t>(call->call->input_count()) : 0;
}
uint32_t xc_op_call_output_count(const xc_op_call* call) {
  return alive(call) ? static_cast<uint32_t>(call->call->output_count()) : 0;
}

xc_status xc_op_call_input(xc_op_call* call, uint32_t index, xc_tensor_view* out_view) {
  return kept(call, [&](OpCall& c) { *need(out_view, "out_view") = to_view(c.input(index)); });
}

xc_status xc_op_call_input_string(xc_op_call* call, uint32_t index, uint64_t element,
                                  xc_string_view* out_value) {
  return kept(call, [&](OpCall& c) {
    need(out_value, "out_value");
    const TensorView view = c.input(index);
    const std::string* strings = strings_of(view, "input");
    if (element >= static_cast<uint64_t>(view.count()))
      fail(Status::kInvalidArgument, "no element {} in {} elements", element, view.count());
    *out_value = to_view(strings[element]);
  });
}

int32_t xc_op_call_wants(const xc_op_call* call, uint32_t index) {
  return alive(call) && call->call->wants(index) ? 1 : 0;
}

xc_status xc_op_call_output(xc_op_call* call, uint32_t index, xc_tensor_view* out_view) {
  return kept(call, [&](OpCall& c) {
    need(out_view, "out_view");
    *out_view = to_view(c.output(index));
  });
}

xc_status xc_op_call_allocate(xc_op_call* call, uint32_t index, uint32_t rank, const int64_t* dims,
                              xc_tensor_view* out_view) {
  return kept(call, [&](OpCall& c) {
    need(out_view, "out_view");
    need_array(dims, rank, "dims");
    if (rank > kMaxRank) fail(Status::kLimit, "rank {} is over the limit of {}", rank, kMaxRank);
    *out_view = to_view(c.allocate(index, Dims(dims, dims + rank)));
  });
}

xc_status xc_op_call_set_strings(xc_op_call* call, uint32_t index, const xc_string_view* values,
                                 uint64_t count) {
  return kept(call, [&](OpCall& c) {
    const TensorView view = c.output(index);
    strings_of(view, "output");
    if (static_cast<uint64_t>(view.count()) != count)
      fail(Status::kInvalidArgument, "the output has {} elements, not {}", view.count(), count);
    need_array(values, count, "values");
    for (uint64_t i = 0; i < count; ++i) {
      need_array(values[i].data, values[i].size, "values[].data");
      view.as<std::string>()[i].assign(values[i].data ? values[i].data : "", values[i].size);
    }
  });
}

xc_status xc_op_call_int(xc_op_call* call, const char* name, int64_t* out_value) {
  return kept(call, [&](OpCall& c) {
    *need(out_value, "out_value") = attribute<int64_t>(c, name, AttrKind::kInt);
  });
}
xc_status xc_op_call_float(xc_op_call* call, const char* name, double* out_value) {
  return kept(call, [&](OpCall& c) {
    *need(out_value, "out_value") = attribute<double>(c, name, AttrKind::kFloat);
  });
}
xc_status xc_op_call_string(xc_op_call* call, const char* name, xc_string_view* out_value) {
  return kept(call, [&](OpCall& c) {
    *need(out_value, "out_value") = to_view(attribute<std::string>(c, name, AttrKind::kString));
  });
}
xc_status xc_op_call_ints(xc_op_call* call, const char* name, const int64_t** out_values,
                          uint64_t* out_count) {
  return list(call, name, AttrKind::kInts, out_values, out_count);
}
xc_status xc_op_call_floats(xc_op_call* call, const char* name, const double** out_values,
                            uint64_t* out_count) {
  return list(call, name, AttrKind::kFloats, out_values, out_count);
}
xc_status xc_op_call_strings(xc_op_call* call, const char* name, uint64_t element,
                             xc_string_view* out_value, uint64_t* out_count) {
  return kept(call, [&](OpCall& c) {
    const std::span<const std::string> all = texts(c, name);
    if (out_value && element >= all.size())
      fail(Status::kInvalidArgument, "no element {} in the {} of attribute '{}'", element,
           all.size(), name);
    if (out_value) *out_value = to_view(all[element]);
    if (out_count) *out_count = all.size();
  });
}
xc_status xc_op_call_tensor(xc_op_call* call, const char* name, xc_tensor_view* out_view) {
  return kept(call, [&](OpCall& c) {
    *need(out_view, "out_view") = to_view(attribute<Tensor>(c, name, AttrKind::kTensor).view());
  });
}

int32_t xc_op_call_has(const xc_op_call* call, const char* name) {
  const OpCall* c = alive(call);
  if (!c || !name) return 0;
  return c->node().attrs.has(name) || c->op().default_of(name) ? 1 : 0;
}

uint32_t xc_op_call_attribute_count(const xc_op_call* call) {
  const OpCall* c = alive(call);
  return c ? static_cast<uint32_t>(c->op().signature.attrs.size()) : 0;
}
xc_status xc_op_call_attribute(xc_op_call* call, uint32_t index, const char** out_name,
                               int32_t* out_kind) {
  return kept(call, [&](OpCall& c) {
    const auto& attrs = c.op().signature.attrs;
    if (index >= attrs.size())
      fail(Status::kInvalidArgument, "{} declares {} attributes", c.op().name, attrs.size());
    need(out_name, "out_name");
    *need(out_kind, "out_kind") = static_cast<int32_t>(attrs[index].kind);
    *out_name = attrs[index].name.c_str();
  });
}

xc_status xc_op_call_fail(xc_op_call* call, xc_status status, const char* message) {
  if (status <= XC_OK || status > XC_INTERNAL) status = XC_INVALID_ARGUMENT;
  if (!alive(call)) return status;
  const xc_status done = guard(nullptr, [&] { call->message = message ? message : ""; });
  call->status = done == XC_OK ? status : done;
  return status;
}
