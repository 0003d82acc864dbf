#include "ops/containers.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>

#include "base/checked.h"

namespace xc {

namespace {

const Dim& any_dim() {
  static const Dim any = Dim::symbol("_");
  return any;
}

Type generalised(Type type) {
  if (type.kind != Type::Kind::kTensor) {
    if (type.element) type.element = std::make_shared<const Type>(generalised(*type.element));
  } else if (type.dims) {
    for (Dim& d : *type.dims)
      if (!d.is_constant()) d = any_dim();
  }
  return type;
}

Type container(Type::Kind kind, Type element, DType key = DType::kUndefined) {
  return {kind, key, std::nullopt, std::make_shared<const Type>(generalised(std::move(element)))};
}

}  // namespace

Type sequence_type(Type element) {
  return container(Type::Kind::kSequence, std::move(element));
}
Type optional_type(Type element) {
  return container(Type::Kind::kOptional, std::move(element));
}
Type map_type(DType key, DType value) {
  return container(Type::Kind::kMap, Type::tensor(value, SymDims{}), key);
}

Type without_dims(Type type) {
  type.dims.reset();
  if (type.element) type.element = std::make_shared<const Type>(without_dims(*type.element));
  return type;
}

const Type& element_type(const InferContext& c, size_t i) {
  const Type& type = c.type(i);
  if (type.kind != Type::Kind::kSequence || !type.element)
    c.error("input {} is {}, expected a sequence", i, type.text());
  return *type.element;
}

Type one_element(const InferContext& c, const Type& element) {
  Type out = element;
  if (out.kind == Type::Kind::kTensor && out.dims)
    for (Dim& d : *out.dims)
      if (!d.is_constant()) d = c.fresh("element");
  return out;
}

Type merge_elements(const InferContext& c, const Type& a, const Type& b, std::string_view what) {
  const bool opt_a = a.kind == Type::Kind::kOptional, opt_b = b.kind == Type::Kind::kOptional;
  if (opt_a != opt_b)
    return optional_type(merge_elements(c, opt_a ? *a.element : a, opt_b ? *b.element : b, what));
  if (a.kind != b.kind || a.dtype != b.dtype || !a.element != !b.element)
    c.error("{}: types {} and {} do not agree", what, a.text(), b.text());
  if (a.element) return container(a.kind, merge_elements(c, *a.element, *b.element, what), a.dtype);
  if (!a.dims || !b.dims || a.dims->size() != b.dims->size()) return Type::tensor(a.dtype);
  Type out = generalised(a);
  for (size_t i = 0; i < out.dims->size(); ++i)
    if ((*a.dims)[i] != (*b.dims)[i]) (*out.dims)[i] = any_dim();
  return out;
}

std::span<Tensor> elements_of(const Tensor& sequence) {
  if (sequence.dtype() != DType::kTensor || sequence.rank() != 1)
    fail(Status::kInvalidModel, "a sequence is expected, given is {}",
         sequence ? name(sequence.dtype()) : "nothing");
  return {sequence.as<Tensor>(), static_cast<size_t>(sequence.count())};
}

int64_t held_bytes(const Tensor& value) {
  if (!value) return 0;
  int64_t bytes = value.byte_size();
  if (value.dtype() == DType::kTensor)
    for (int64_t i = 0; i < value.count(); ++i)
      bytes = checked_add(bytes, held_bytes(value.as<Tensor>()[i]));
  return bytes;
}

namespace {

/// Memory that sequences share which have grown out of one another: each has the first so many of
/// the elements. Who takes the next one writes it, nobody writes those that are taken.
struct Growing {
  Tensor tensors;
  std::atomic<int64_t> taken;

  bool take(int64_t index) {
    return index < tensors.count() && taken.compare_exchange_strong(index, index + 1);
  }

  /// By which the owner of a buffer is known to be one of these.
  struct Mark {
    Growing* growing;
    void operator()(Growing* owned) const { delete owned; }
  };
  static std::shared_ptr<Buffer> make(int64_t taken, int64_t capacity) {
    auto* const growing = new Growing{Tensor(DType::kTensor, {capacity}), taken};
    const std::shared_ptr<Growing> owner(growing, Mark{growing});
    return {owner, growing->tensors.buffer().get()};
  }
};

}  // namespace

Tensor make_sequence(std::vector<Tensor> elements) {
  Tensor out(DType::kTensor, {static_cast<int64_t>(elements.size())});
  std::move(elements.begin(), elements.end(), out.as<Tensor>());
  return out;
}

Tensor appended(const Tensor& sequence, Tensor element) {
  const auto old = elements_of(sequence);
  const auto size = static_cast<int64_t>(old.size());
  const Dims dims{size + 1};
  if (const auto* mark = std::get_deleter<Growing::Mark>(sequence.buffer()))
    if (sequence.as<Tensor>() == mark->growing->tensors.as<Tensor>() && mark->growing->take(size)) {
      sequence.as<Tensor>()[size] = std::move(element);
      return Tensor(sequence.buffer(), 0, DType::kTensor, dims);
    }
  const Tensor out(Growing::make(size + 1, 2 * size + 1), 0, DType::kTensor, dims);
  std::copy(old.begin(), old.end(), out.as<Tensor>());
  out.as<Tensor>()[size] = std::move(element);
  return out;
}

Tensor make_map(Map map) {
  Tensor out(DType::kTensor, {2});
  out.as<Tensor>()[0] = std::move(map.keys);
  out.as<Tensor>()[1] = std::move(map.values);
  return out;
}

bool is_map(const TensorView& value, DType key, DType element) {
  if (!is_map(value)) return false;
  const auto* parts = value.as<const Tensor>();
  return parts[0].dtype() == key && parts[value.strides[0]].dtype() == element;
}

Map map_of(const Tensor& value) {
  const auto parts = elements_of(value);
  if (!is_map(value.view()))
    fail(Status::kInvalidModel, "a map is expected: keys and values of rank 1 and one length");
  return {parts[0].to_contiguous(), parts[1].to_contiguous()};
}

std::vector<int64_t> ascending_keys(const Tensor& keys) {
  std::vector<int64_t> order(static_cast<size_t>(keys.count()));
  std::iota(order.begin(), order.end(), 0);
  const auto sort = [&](const auto* key) {
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return key[a] < key[b]; });
    for (size_t i = 1; i < order.size(); ++i)
      if (key[order[i - 1]] == key[order[i]])
        fail(Status::kRange, "key {} occurs twice in a map", key[order[i]]);
  };
  if (keys.dtype() == DType::kString)
    sort(keys.as<std::string>());
  else
    sort(keys.as<int64_t>());
  return order;
}

}  // namespace xc
