// TensorScatter: a cache with an update written along its sequence axis, for each sample of the
// batch from an index of its own on. xc.UpdateCache: the same of a cache that grows first, by zeros
// behind what is there, to the length that is asked for; where it is as long already, its memory
// can be updated in place.

#include "ops/checks.h"
#include "ops/support.h"

namespace xc {

namespace {

size_t sequence_axis(const Node& node, size_t rank) {
  const size_t axis = normalise_axis(node.attrs.get_int("axis", -2), rank);
  if (axis == 0) fail(Status::kInvalidModel, "axis 0 is that of the batch");
  return axis;
}

constexpr size_t kCache = 0, kUpdate = 1, kStarts = 2;
constexpr size_t kLength = 3;  ///< of UpdateCache

void infer(InferContext& c) {
  const DType t = check_dtype(c, kCache, kAnyType);
  require_same_dtype(c, kUpdate);
  check_dtype(c, kStarts, type_set({DType::kI64}));
  const SymDims& update = c.dims(kUpdate);
  SymDims cache = c.dims(kCache);
  const size_t axis = sequence_axis(*c.node, cache.size());
  if (c.has(kLength)) {
    check_dtype(c, kLength, type_set({DType::kI64}));
    require_vector(c, kLength, 1);
    const auto length = c.elements(kLength);
    if (!length)
      cache[axis] = c.fresh("length");
    else
      cache[axis] = cache[axis] == Dim(0) ? (*length)[0] : max(cache[axis], (*length)[0]);
  }
  SymDims expected = cache;
  if (update.size() == cache.size()) expected[axis] = update[axis];
  require_dims(c, kUpdate, expected);
  if (update[axis].is_constant() && cache[axis].is_constant() &&
      update[axis].value() > cache[axis].value())
    c.error("an update of {} does not fit a cache of {}", update[axis].value(),
            cache[axis].value());
  if (c.has(kStarts)) require_vector(c, kStarts, cache[0]);
  c.set(0, t, cache);
}

void reference(const ReferenceContext& c) {
  check_shapes(c);
  const TensorView &cache = c.inputs[kCache], &update = c.inputs[kUpdate], &y = c.outputs[0];
  const size_t axis = sequence_axis(*c.node, y.dims.size());
  const bool circular = c.attrs().get_string("mode", "linear") == "circular";
  const int64_t length = y.dims[axis];
  std::vector<int64_t> starts(static_cast<size_t>(y.dims[0]), 0);
  if (c.has(kStarts)) starts = int_values(c.inputs[kStarts]);
  for (const int64_t start : starts)
    if (start < 0 || (!circular && start > length - update.dims[axis]))
      fail(Status::kRange, "an update of {} at {} does not fit a cache of {}", update.dims[axis],
           start, length);
  dispatch_storage(y.dtype, [&]<class T>() {
    if (c.has(kLength))
      for_each_coordinate(
          y.dims, [&](std::span<const int64_t> at) { y.as<T>()[offset_of(at, y.strides)] = T{}; });
    copy_elements(cache, {y.data, y.dtype, cache.dims, y.strides});
    for_each_coordinate(update.dims, [&](std::span<const int64_t> at) {
      const int64_t to = (starts[static_cast<size_t>(at[0])] % length + at[axis]) % length;
      y.as<T>()[offset_of(at, y.strides) + (to - at[axis]) * y.strides[axis]] =
          update.as<T>()[offset_of(at, update.strides)];
    });
  });
}

}  // namespace

void register_tensor_scatter(OpList& ops) {
  AttrSpec mode{"mode", AttrKind::kString};
  mode.choices = "linear|circular";
  ops.push_back({.name = "TensorScatter",
                 .min_inputs = 2,
                 .max_inputs = 3,
                 .attrs = {{"axis", AttrKind::kInt}, mode},
                 .infer = infer,
                 .reference = reference});
  ops.push_back({.name = "UpdateCache",
                 .domain = "xc",
                 .min_inputs = 4,
                 .max_inputs = 4,
                 .attrs = {{"axis", AttrKind::kInt}},
                 .infer = infer,
                 .reference = reference});
}

}  // namespace xc
