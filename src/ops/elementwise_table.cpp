#include "ops/elementwise_table.h"

namespace xc::elementwise {

namespace {

/// Types whose elements are followed symbolically. Narrower ones could wrap unnoticed.
constexpr TypeSet kShapeTypes =
    type_set({DType::kI32, DType::kI64, DType::kBool, DType::kF32, DType::kF64});

double choice_index(std::string_view choices, std::string_view value) {
  double index = 0;
  for (size_t begin = 0; begin <= choices.size(); ++index) {
    const size_t end = std::min(choices.find('|', begin), choices.size());
    if (choices.substr(begin, end - begin) == value) return index;
    begin = end + 1;
  }
  fail(Status::kInvalidModel, "'{}' is not one of {}", value, choices);
}

}  // namespace

Params read_params(const Node& node) {
  Params out{};
  const auto& specs = node.op->attrs;
  XC_CHECK(specs.size() <= out.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    out[i] = specs[i].otherwise;
    if (const Attr* attr = node.attrs.find(specs[i].name)) {
      if (const auto* v = std::get_if<int64_t>(attr))
        out[i] = static_cast<double>(*v);
      else if (const auto* f = std::get_if<double>(attr))
        out[i] = *f;
      else if (const auto* s = std::get_if<std::string>(attr))
        out[i] = choice_index(specs[i].choices, *s);
    }
  }
  return out;
}

void infer_broadcast(InferContext& c, TypeSet allowed, bool mixed, Result result) {
  for (size_t i = 0; i < c.input_count(); ++i) {
    if (!c.has(i)) c.error("input {} is missing", i);
    check_dtype(c, i, allowed);
  }
  const DType type = read_dtype(c, 0);
  for (size_t i = 0; !mixed && i < c.input_count(); ++i)
    if (read_dtype(c, i) != type) check_same_dtype(c, 0, c.input_count());
  c.set(0, result == Result::kBool ? DType::kBool : type, broadcast_inputs(c, 0, c.input_count()));
}

void propagate_elements(InferContext& c,
                        const std::function<scalar::Sym(std::span<const scalar::Sym>)>& f) {
  const DType t = c.outputs[0].dtype;
  if (!contains(kShapeTypes, t)) return;
  const auto dims = to_concrete(*c.outputs[0].dims);
  if (!dims || element_count(*dims) > kMaxKnownElements) return;
  std::vector<std::vector<Dim>> known;
  std::vector<Dims> strides;
  for (size_t i = 0; i < c.input_count(); ++i) {
    auto elements = c.elements(i);
    if (!elements) return;
    const auto own = to_concrete(c.dims(i));
    if (!own) return;
    const Dims row_major = contiguous_strides(*own);
    strides.push_back(broadcast_strides({nullptr, DType::kUndefined, *own, row_major}, *dims));
    known.push_back(std::move(*elements));
  }
  std::vector<Dim> out;
  bool all = true;
  for_each_coordinate(*dims, [&](std::span<const int64_t> at) {
    std::vector<scalar::Sym> args;
    for (size_t i = 0; all && i < known.size(); ++i)
      args.push_back(
          {known[i][static_cast<size_t>(offset_of(at, strides[i]))], is_float(c.dtype(i))});
    scalar::Sym element;
    try {
      if (all) element = f(args);
    } catch (const Error&) {
      // Numbers that no size can be, the bounds of a Slice that means "to the end" among them.
    }
    if (element.v)
      out.push_back(std::move(*element.v));
    else
      all = false;
  });
  if (all) c.set_elements(0, std::move(out));
}

void visit_broadcast(const ReferenceContext& c, const std::function<void(const int64_t*)>& body) {
  const TensorView& y = c.outputs[0];
  std::vector<Dims> strides;
  for (const TensorView& x : c.inputs) strides.push_back(broadcast_strides(x, y.dims));
  std::vector<std::span<const int64_t>> spans(strides.begin(), strides.end());
  spans.push_back(y.strides);
  for_each_index(y.dims, spans, [&](int64_t, const int64_t* at) { body(at); });
}

void visit_runs(std::span<const TensorView> inputs, const TensorView& y,
                const std::function<void(const Run&)>& body) {
  const size_t operands = inputs.size() + 1;
  // Axes next to each other whose elements lie evenly in all operands are one.
  Dims dims;
  std::vector<Dims> all, strides(operands);
  for (const TensorView& x : inputs) all.push_back(broadcast_strides(x, y.dims));
  all.emplace_back(y.strides.begin(), y.strides.end());
  for (size_t axis = 0; axis < y.dims.size(); ++axis) {
    const int64_t size = y.dims[axis];
    if (size == 1) continue;
    bool even = !dims.empty();
    for (size_t k = 0; even && k < operands; ++k) even = strides[k].back() == all[k][axis] * size;
    if (!even) dims.push_back(1);
    dims.back() *= size;
    for (size_t k = 0; k < operands; ++k) {
      if (!even) strides[k].push_back(0);
      strides[k].back() = all[k][axis];
    }
  }
  if (dims.empty()) {
    dims.push_back(1);
    for (Dims& own : strides) own.push_back(0);
  }
  std::vector<int64_t> steps, first(operands);
  std::vector<std::span<const int64_t>> outer;
  for (const Dims& own : strides) {
    steps.push_back(own.back());
    outer.emplace_back(own.data(), own.size() - 1);
  }
  const int64_t inner = dims.back();
  for_each_index(std::span(dims).first(dims.size() - 1), outer, [&](int64_t, const int64_t* at) {
    for (int64_t i = 0; i < inner; i += kMostRun) {
      for (size_t k = 0; k < operands; ++k) first[k] = at[k] + i * steps[k];
      body({first.data(), steps.data(), std::min(kMostRun, inner - i)});
    }
  });
}

namespace {

/// body(index of an element of the values, its offset in the operand).
template <class Body>
void for_each_of(const Run& run, size_t which, Body&& body) {
  const int64_t first = run.first[which], step = run.step[which];
  for (int64_t k = 0; k < run.length; ++k) body(k, first + k * step);
}

template <class X>
void load_wrapped(const TensorView& v, const Run& run, size_t which, X* values) {
  for_each_of(run, which, [&](int64_t k, int64_t at) {
    values[k] = X::wrap(static_cast<uint64_t>(load_int64(v.data, v.dtype, at)));
  });
}
template <class X>
void store_bits(const TensorView& v, const Run& run, size_t which, const X* values) {
  for_each_of(run, which, [&](int64_t k, int64_t at) {
    store_wrapped(v.data, v.dtype, at, static_cast<int64_t>(values[k].bits()));
  });
}

}  // namespace

void load_run(const TensorView& v, const Run& run, size_t which, scalar::Real* values) {
  if (v.dtype == DType::kF32)
    for_each_of(run, which, [&](int64_t k, int64_t at) { values[k].v = v.as<float>()[at]; });
  else
    for_each_of(run, which,
                [&](int64_t k, int64_t at) { values[k].v = load_double(v.data, v.dtype, at); });
}
void load_run(const TensorView& v, const Run& run, size_t which, scalar::Truth* values) {
  for_each_of(run, which,
              [&](int64_t k, int64_t at) { values[k].v = load_int64(v.data, v.dtype, at) != 0; });
}
void load_run(const TensorView& v, const Run& run, size_t which, scalar::Int* values) {
  load_wrapped(v, run, which, values);
}
void load_run(const TensorView& v, const Run& run, size_t which, scalar::UInt* values) {
  load_wrapped(v, run, which, values);
}

void store_run(const TensorView& v, const Run& run, size_t which, const scalar::Real* values) {
  if (v.dtype == DType::kF32)
    for_each_of(run, which, [&](int64_t k, int64_t at) {
      v.as<float>()[at] = static_cast<float>(values[k].v);
    });
  else
    for_each_of(run, which,
                [&](int64_t k, int64_t at) { store_double(v.data, v.dtype, at, values[k].v); });
}
void store_run(const TensorView& v, const Run& run, size_t which, const scalar::Truth* values) {
  for_each_of(run, which,
              [&](int64_t k, int64_t at) { store_wrapped(v.data, v.dtype, at, values[k].v); });
}
void store_run(const TensorView& v, const Run& run, size_t which, const scalar::Int* values) {
  store_bits(v, run, which, values);
}
void store_run(const TensorView& v, const Run& run, size_t which, const scalar::UInt* values) {
  store_bits(v, run, which, values);
}

template <class X, class Y>
void compute_runs(const ReferenceContext& c, RunFn<X, Y> f) {
  const Params p = read_params(*c.node);
  const size_t n = c.inputs.size();
  std::vector<X> values(n * kMostRun);
  std::array<Y, kMostRun> results;
  visit_runs(c.inputs, c.outputs[0], [&](const Run& run) {
    for (size_t k = 0; k < n; ++k) load_run(c.inputs[k], run, k, values.data() + k * kMostRun);
    f(values.data(), n, run.length, p, results.data());
    store_run(c.outputs[0], run, n, results.data());
  });
}
template void compute_runs(const ReferenceContext&, RunFn<scalar::Real, scalar::Real>);
template void compute_runs(const ReferenceContext&, RunFn<scalar::Real, scalar::Truth>);
template void compute_runs(const ReferenceContext&, RunFn<scalar::Int, scalar::Int>);
template void compute_runs(const ReferenceContext&, RunFn<scalar::Int, scalar::Truth>);
template void compute_runs(const ReferenceContext&, RunFn<scalar::UInt, scalar::UInt>);
template void compute_runs(const ReferenceContext&, RunFn<scalar::UInt, scalar::Truth>);
template void compute_runs(const ReferenceContext&, RunFn<scalar::Truth, scalar::Truth>);

DType domain_of(const ReferenceContext& c) {
  DType out = DType::kBool;
  for (const TensorView& x : c.inputs) {
    if (is_float(x.dtype)) return x.dtype;
    if (out == DType::kBool) out = x.dtype;
  }
  return out;
}

}  // namespace xc::elementwise
