#include "ops/mutants.h"

#include <cmath>
#include <limits>
#include <set>

#include "ops/registry.h"

namespace xc::test {

namespace {

using Body = std::function<void(const Mutant&)>;
using List = std::vector<int64_t>;

const List kInts{
    -1,      0,         1,         2,         3,        int64_t{1} << 31,      int64_t{1} << 40,
    1 << 20, INT64_MAX, INT64_MIN, INT32_MIN, -1000000, (int64_t{1} << 62) + 1};
const std::vector<double> kFloats{0, -1, -0.0, 0.5, 1e30, 1e-40, INFINITY, -INFINITY, NAN, 3e9};
constexpr size_t kLongList = 100000;

bool is_extreme(double v) {
  return !(std::abs(v) < 1e9);
}

/// The value of an attribute of that kind, an empty one otherwise.
template <class T>
T held(const Attr* attr) {
  const T* value = attr ? std::get_if<T>(attr) : nullptr;
  return value ? *value : T{};
}

// ---- attributes ---------------------------------------------------------------------------------

class Attributes {
 public:
  Attributes(const Mutant& seed, const Body& body) : seed_(seed), body_(body) {}

  void mutate(const AttrSpec& spec) {
    name_ = std::string(spec.name);
    const Attr* now = seed_.node.attrs.find(spec.name);
    if (now && spec.required) without();
    switch (spec.kind) {
      case AttrKind::kInt:
        ints(spec);
        break;
      case AttrKind::kFloat:
        for (const double v : kFloats) {
          extreme_ = is_extreme(v);
          with(v, fmt::format("{}", v));
        }
        extreme_ = false;
        break;
      case AttrKind::kString:
        for (const char* v : {"", "nonsense", "x->", "NONE", "\xff\x01"})
          with(std::string(v), v, true);
        with(std::string(kLongList, 'x'), "long", true);
        break;
      case AttrKind::kInts:
        lists(held<List>(now), kInts);
        break;
      case AttrKind::kFloats:
        lists(held<std::vector<double>>(now), kFloats);
        break;
      case AttrKind::kStrings:
        lists(held<std::vector<std::string>>(now), std::vector<std::string>{"", "nonsense"});
        break;
      case AttrKind::kTensor:
        tensors();
        break;
    }
    if (spec.kind != AttrKind::kString) with(std::string("text"), "another kind", true);
    if (spec.kind != AttrKind::kInt) with(int64_t{1}, "another kind", true);
  }

 private:
  void with(Attr value, const std::string& shown, bool blatant = false) {
    Mutant out = seed_;
    out.blatant = blatant;
    out.extreme = extreme_;
    out.what = fmt::format("attribute '{}' = {}", name_, shown);
    out.attribute = name_;
    out.node.attrs.set(name_, std::move(value));
    body_(out);
  }
  void without() {
    Mutant out = seed_;
    out.what = fmt::format("attribute '{}' left out", name_);
    out.attribute = name_;
    out.node.attrs.erase(name_);
    body_(out);
  }

  /// The last legal value and the first illegal one on both sides, and what overflows.
  void ints(const AttrSpec& spec) {
    List values = kInts;
    if (spec.low > INT64_MIN) values.insert(values.end(), {spec.low, spec.low - 1});
    if (spec.high < INT64_MAX) values.insert(values.end(), {spec.high, spec.high + 1});
    const auto rank = seed_.inputs.empty() || !seed_.inputs[0] ? 0 : seed_.inputs[0].rank();
    values.insert(values.end(), {rank - 1, rank, -rank, -rank - 1});
    for (const int64_t v : std::set<int64_t>(values.begin(), values.end()))
      with(v, std::to_string(v), v < INT32_MIN || v > INT32_MAX);
  }

  template <class T>
  void lists(const std::vector<T>& now, const std::vector<T>& values) {
    with(std::vector<T>{}, "[]");
    with(std::vector<T>(kLongList, values[0]), "a long list");
    if (now.empty()) {
      for (size_t k = 0; k < values.size(); ++k)
        with(std::vector<T>(2, values[k]), fmt::format("two times value {}", k));
      return;
    }
    std::vector<T> other = now;
    other.push_back(now.back());
    with(other, "one longer");
    other.resize(now.size() - 1);
    with(other, "one shorter");
    for (const size_t at : std::set<size_t>{0, now.size() / 2, now.size() - 1})
      for (size_t k = 0; k < values.size(); ++k) {
        other = now;
        other[at] = values[k];
        with(other, fmt::format("element {} is value {}", at, k));
      }
  }

  void tensors() {
    with(Tensor(DType::kF32, {0}), "an empty tensor");
    with(Tensor::of<int64_t>({1, 2, 3}), "three integers");
    with(Tensor::of<float>({NAN, 1e30f}, {1, 2}), "a matrix");
    with(Tensor::of(std::vector<std::string>{"a"}), "text");
    with(Tensor::of<int64_t>({-1, INT64_MAX}), "huge integers");
  }

  const Mutant& seed_;
  const Body& body_;
  std::string name_;
  bool extreme_ = false;
};

// ---- inputs -------------------------------------------------------------------------------------

void renumber(Mutant& mutant) {
  mutant.node.inputs.clear();
  for (size_t i = 0; i < mutant.inputs.size(); ++i)
    mutant.node.inputs.push_back(mutant.inputs[i] ? static_cast<ValueId>(i) : kNone);
  for (size_t k = 0; k < mutant.node.outputs.size(); ++k)
    if (mutant.node.outputs[k] != kNone)
      mutant.node.outputs[k] = static_cast<ValueId>(mutant.inputs.size() + k);
}

Tensor zeros(DType type, Dims dims) {
  Tensor out(type, std::move(dims));
  if (type != DType::kString && out.byte_size() > 0)
    std::memset(out.data(), 0, static_cast<size_t>(out.byte_size()));
  return out;
}

void mutate_arity(const Mutant& seed, const Body& body) {
  const auto changed = [&](const std::string& what, auto&& change) {
    Mutant out = seed;
    out.what = what;
    change(out);
    renumber(out);
    body(out);
  };
  for (size_t i = 0; i < seed.inputs.size(); ++i)
    changed(fmt::format("input {} absent", i), [&](Mutant& m) { m.inputs[i] = {}; });
  changed("no inputs", [](Mutant& m) { m.inputs.clear(); });
  if (!seed.inputs.empty()) {
    changed("one input fewer", [](Mutant& m) { m.inputs.pop_back(); });
    changed("one input more", [](Mutant& m) { m.inputs.push_back(m.inputs[0]); });
    changed("forty inputs more",
            [](Mutant& m) { m.inputs.resize(m.inputs.size() + 40, m.inputs[0]); });
  }
  changed("no outputs", [](Mutant& m) { m.node.outputs.clear(); });
  changed("one output more", [](Mutant& m) { m.node.outputs.push_back(0); });
  changed("an unknown attribute",
          [](Mutant& m) { m.node.attrs.set("no_such_attribute", int64_t{1}); });
}

void mutate_shape(const Mutant& seed, size_t i, const Body& body) {
  const Tensor& x = seed.inputs[i];
  const auto with = [&](Tensor value, const std::string& what) {
    Mutant out = seed;
    out.what = fmt::format("input {}: {}", i, what);
    out.inputs[i] = std::move(value);
    body(out);
  };
  if (x.dtype() == DType::kTensor) {
    with(Tensor(DType::kTensor, {0}), "no elements");
    with(Tensor(DType::kTensor, {2}), "two undefined elements");
    with(Tensor(DType::kTensor, {2, 1}), "a matrix of elements");
    return with(zeros(DType::kF32, {2, 3}), "no container");
  }
  for (const DType type : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8,
                           DType::kI64, DType::kU64, DType::kBool, DType::kString, DType::kC64,
                           DType::kF8E4M3FN, DType::kI4, DType::kF4E2M1, DType::kF6E2M3})
    if (type != x.dtype()) with(zeros(type, x.dims()), std::string(name(type)));
  Dims dims = x.dims();
  dims.insert(dims.begin(), 1);
  with(zeros(x.dtype(), dims), "one axis more");
  with(zeros(x.dtype(), {}), "a scalar");
  with(zeros(x.dtype(), {0}), "no elements");
  with(zeros(x.dtype(), Dims(12, 1)), "twelve axes");
  if (x.rank() > 0) {
    dims = x.dims();
    dims.pop_back();
    with(zeros(x.dtype(), dims), "one axis fewer");
  }
  for (size_t axis = 0; axis < x.dims().size(); ++axis)
    for (const int64_t change : {-1, 1}) {
      dims = x.dims();
      dims[axis] = change < 0 ? 0 : dims[axis] + 1;
      with(zeros(x.dtype(), dims), fmt::format("dims {}", to_text(dims)));
    }
}

/// What a legal tensor may hold: one element, or all of them, of numbers that no one means.
void mutate_values(const Mutant& seed, size_t i, const Body& body) {
  const Tensor& x = seed.inputs[i];
  if (x.count() == 0 || x.dtype() == DType::kString || x.dtype() == DType::kBool ||
      x.dtype() == DType::kTensor || info(x.dtype()).kind == DTypeKind::kComplex)
    return;
  const bool whole = is_integer(x.dtype());
  const size_t count = whole ? kInts.size() : kFloats.size();
  for (size_t k = 0; k < count; ++k)
    for (const bool every : {false, true}) {
      if (every && x.count() == 1) continue;
      Mutant out = seed;
      Tensor value = x.clone();
      for (int64_t at = every ? 0 : x.count() - 1; at < x.count(); ++at) {
        if (whole)
          store_int64(value.data(), x.dtype(), at, kInts[k]);
        else
          store_double(value.data(), x.dtype(), at, kFloats[k]);
      }
      out.what = fmt::format("input {}: {} {}", i, every ? "all elements" : "the last element",
                             whole ? fmt::format("{}", kInts[k]) : fmt::format("{}", kFloats[k]));
      out.inputs[i] = value;
      out.extreme = !whole && is_extreme(kFloats[k]);
      body(out);
    }
}

}  // namespace

bool seed_of(const OpCase& problem, Mutant& seed) {
  if (problem.graph.order().size() != 1) return false;
  const Node& node = problem.graph.node(problem.graph.order()[0]);
  seed.node = node;
  seed.node.name = "here";
  seed.what = "unchanged";
  seed.inputs.clear();
  for (const ValueId v : node.inputs) {
    Tensor value;
    for (size_t i = 0; i < problem.graph.inputs.size(); ++i)
      if (problem.graph.inputs[i] == v) value = problem.inputs[i];
    seed.inputs.push_back(value);
  }
  renumber(seed);
  return true;
}

Mutant seed_of(const char* op, const char* domain, std::vector<Tensor> inputs,
               const std::vector<std::pair<const char*, Attr>>& attrs) {
  Mutant seed;
  seed.what = "unchanged";
  seed.node.op = &get_op(op, domain);
  seed.node.name = "here";
  seed.inputs = std::move(inputs);
  for (const auto& [name, value] : attrs) seed.node.attrs.set(name, value);
  seed.node.outputs = {0};
  renumber(seed);
  return seed;
}

Mutant random_mutant(const Mutant& seed, std::mt19937_64& random) {
  Mutant out = seed;
  size_t count = 0;
  for_each_mutant(seed, [&](const Mutant& mutant) {
    if (random() % ++count == 0) out = mutant;
  });
  if (seed.what != "unchanged") out.what = seed.what + "; " + out.what;
  out.extreme = out.extreme || seed.extreme;
  return out;
}

void for_each_mutant(const Mutant& seed, const Body& body) {
  for (const AttrSpec& spec : seed.node.op->attrs) Attributes(seed, body).mutate(spec);
  mutate_arity(seed, body);
  for (size_t i = 0; i < seed.inputs.size(); ++i) {
    if (!seed.inputs[i]) continue;
    mutate_shape(seed, i, body);
    mutate_values(seed, i, body);
  }
}

}  // namespace xc::test
