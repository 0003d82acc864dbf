// Maps of ai.onnx.ml: made of rows (ZipMap), made tensors (CastMap, DictVectorizer).

#include <algorithm>
#include <charconv>

#include "ops/checks.h"
#include "ops/containers.h"
#include "ops/ml.h"

namespace xc {

namespace {

using Values = std::vector<Tensor>;

const Type& map_input(const InferContext& c) {
  const Type& type = c.type(0);
  if (type.kind != Type::Kind::kMap || !type.element || type.element->kind != Type::Kind::kTensor)
    c.error("input 0 is {}, expected a map", type.text());
  return type;
}

/// The last axis of a row-major tensor in another order.
Tensor reordered(const Tensor& from, const std::vector<int64_t>& order) {
  Tensor out(from.dtype(), from.dims());
  dispatch_storage(from.dtype(), [&]<class T>() {
    T* to = out.as<T>();
    for (const T *row = from.as<T>(), *end = row + from.count(); row != end; row += order.size())
      for (const int64_t k : order) *to++ = row[k];
  });
  return out;
}

// ---- ZipMap -------------------------------------------------------------------------------------

Tensor zip_keys(const Attrs& attrs) {
  return class_labels(attrs, "classlabels_int64s", "classlabels_strings");
}

void infer_zip(InferContext& c) {
  const DType t = check_dtype(c, 0, type_set({DType::kF32}));
  check_rows(c);
  const Tensor keys = zip_keys(c.attrs());
  try {
    ascending_keys(keys);
  } catch (const Error& error) {
    c.error("attribute 'classlabels_*': {}", error.message());
  }
  if (known_different(c.dims(0).back(), keys.count()))
    c.error("{} keys for {} columns", keys.count(), c.dims(0).back().text());
  c.outputs[0] = sequence_type(map_type(keys.dtype(), t));
}

Values evaluate_zip(const Node& node, const Values& inputs) {
  const Tensor keys = zip_keys(node.attrs);
  const Tensor x = inputs[0].to_contiguous();
  const int64_t columns = x.dims().back();
  if (columns != keys.count())
    fail(Status::kRange, "{} keys for {} columns", keys.count(), columns);
  const auto order = ascending_keys(keys);
  const Tensor sorted = reordered(keys, order);
  // The maps of all rows lie in one memory.
  const Tensor values = std::is_sorted(order.begin(), order.end()) ? x : reordered(x, order);
  Tensor maps(DType::kTensor, {columns > 0 ? x.count() / columns : 0});
  const Tensor pairs(DType::kTensor, {2 * maps.count()});
  for (int64_t i = 0; i < maps.count(); ++i) {
    Tensor* const pair = pairs.as<Tensor>() + 2 * i;
    pair[0] = sorted;
    pair[1] =
        Tensor(values.buffer(), values.byte_offset() + i * columns * element_size(values.dtype()),
               values.dtype(), {columns});
    maps.as<Tensor>()[i] =
        Tensor(pairs.buffer(), 2 * i * element_size(DType::kTensor), DType::kTensor, {2});
  }
  return {maps};
}

// ---- CastMap ------------------------------------------------------------------------------------

DType cast_target(const Attrs& attrs) {
  const std::string to = attrs.get_string("cast_to", "TO_FLOAT");
  return to == "TO_STRING" ? DType::kString : to == "TO_INT64" ? DType::kI64 : DType::kF32;
}
bool is_sparse(const Attrs& attrs) {
  return attrs.get_string("map_form", "DENSE") == "SPARSE";
}

void infer_cast(InferContext& c) {
  const Type& type = map_input(c);
  if (type.dtype != DType::kI64) c.error("keys are {}, expected i64", name(type.dtype));
  const DType from = type.element->dtype;
  if (from != DType::kF32 && from != DType::kString)
    c.error("values are {}, expected f32 or string", name(from));
  c.set(0, cast_target(c.attrs()),
        {Dim(1), is_sparse(c.attrs()) ? Dim(c.attrs().get_int("max_map", 1)) : c.fresh("map")});
}

/// The whole text as a number of type T.
template <class T>
T parsed(const std::string& text) {
  T out{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size())
    fail(Status::kRange, "value '{}' is no number of type {}", text, name(kDTypeOf<T>));
  return out;
}

void cast_value(const Tensor& from, int64_t i, const Tensor& to, int64_t k) {
  if (from.dtype() != DType::kString) {
    const float value = from.as<float>()[i];
    if (to.dtype() == DType::kString)
      to.as<std::string>()[k] = fmt::format("{:.6f}", value);  // as onnxruntime
    else
      store_double(to.data(), to.dtype(), k, value);
    return;
  }
  const std::string& text = from.as<std::string>()[i];
  if (to.dtype() == DType::kString)
    to.as<std::string>()[k] = text;
  else if (to.dtype() == DType::kI64)
    to.as<int64_t>()[k] = parsed<int64_t>(text);
  else
    to.as<float>()[k] = parsed<float>(text);
}

Values evaluate_cast(const Node& node, const Values& inputs) {
  const auto [keys, values] = map_of(inputs[0]);
  const auto order = ascending_keys(keys);
  const bool sparse = is_sparse(node.attrs);
  const int64_t width = sparse ? node.attrs.get_int("max_map", 1) : keys.count();
  Tensor out(cast_target(node.attrs), {1, width});
  if (sparse)
    for (int64_t k = 0; k < width; ++k) {
      if (out.dtype() == DType::kString)
        out.as<std::string>()[k] = "0.f";  // as onnxruntime; the standard names no filling
      else
        store_int64(out.data(), out.dtype(), k, 0);
    }
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t key = keys.as<int64_t>()[order[i]];
    if (sparse && (key < 0 || key >= width))
      fail(Status::kRange, "key {} is outside [0, max_map = {})", key, width);
    cast_value(values, order[i], out, sparse ? key : static_cast<int64_t>(i));
  }
  return {out};
}

// ---- DictVectorizer -----------------------------------------------------------------------------

Tensor vocabulary(const Attrs& attrs) {
  return class_labels(attrs, "int64_vocabulary", "string_vocabulary");
}

void infer_dictionary(InferContext& c) {
  const Type& type = map_input(c);
  const Tensor words = vocabulary(c.attrs());
  if (type.dtype != words.dtype())
    c.error("keys are {}, the vocabulary {}", name(type.dtype), name(words.dtype()));
  constexpr TypeSet allowed = type_set({DType::kI64, DType::kF32, DType::kF64, DType::kString});
  if (!contains(allowed, type.element->dtype))
    c.error("values are {}, expected one of {}", name(type.element->dtype), text(allowed));
  c.set(0, type.element->dtype, {Dim(1), words.count()});
}

/// Keys that the vocabulary does not have are left out, as onnxruntime does.
Values evaluate_dictionary(const Node& node, const Values& inputs) {
  const auto [keys, values] = map_of(inputs[0]);
  const auto order = ascending_keys(keys);
  const Tensor words = vocabulary(node.attrs);
  Tensor out(values.dtype(), {1, words.count()});
  const auto find = [&](const auto* key, const auto& word) {
    const auto at = std::lower_bound(order.begin(), order.end(), word,
                                     [&](int64_t i, const auto& w) { return key[i] < w; });
    return at != order.end() && key[*at] == word ? *at : -1;
  };
  dispatch_storage(values.dtype(), [&]<class T>() {
    for (int64_t k = 0; k < words.count(); ++k) {
      const int64_t at = keys.dtype() == DType::kString
                             ? find(keys.as<std::string>(), words.as<std::string>()[k])
                             : find(keys.as<int64_t>(), words.as<int64_t>()[k]);
      out.as<T>()[k] = at < 0 ? T{} : values.as<T>()[at];  // 0 or an empty text
    }
  });
  return {out};
}

OpDef map_op(std::string_view name, std::vector<AttrSpec> attrs, InferFn infer,
             EvaluateFn evaluate) {
  OpDef op = ml_op(name, std::move(attrs), infer, nullptr);
  op.evaluate = evaluate;
  return op;
}

}  // namespace

void register_maps(OpList& ops) {
  ops.push_back(
      map_op("ZipMap",
             {{"classlabels_int64s", AttrKind::kInts}, {"classlabels_strings", AttrKind::kStrings}},
             infer_zip, evaluate_zip));
  AttrSpec to{"cast_to", AttrKind::kString}, form{"map_form", AttrKind::kString};
  to.choices = "TO_FLOAT|TO_STRING|TO_INT64";
  form.choices = "DENSE|SPARSE";
  ops.push_back(map_op("CastMap", {to, form, {"max_map", AttrKind::kInt, false, 0, INT32_MAX}},
                       infer_cast, evaluate_cast));
  ops.push_back(
      map_op("DictVectorizer",
             {{"int64_vocabulary", AttrKind::kInts}, {"string_vocabulary", AttrKind::kStrings}},
             infer_dictionary, evaluate_dictionary));
}

}  // namespace xc
