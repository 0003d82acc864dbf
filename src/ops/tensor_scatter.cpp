// TensorScatter: a cache with an update written along its sequence axis, for each sample of the
// batch from an index of its own on.

#include "ops/checks.h"
#include "ops/support.h"

namespace xc {

namespace {

size_t sequence_axis(const Node& node, size_t rank) {
  const size_t axis = normalise_axis(node.attrs.get_int("axis", -2), rank);
  if (axis == 0) fail(Status::kInvalidModel, "axis 0 is that of the batch");
  return axis;
}

void infer(InferContext& c) {
  const DType t = check_dtype(c, 0, kAnyType);
  require_same_dtype(c, 1);
  check_dtype(c, 2, type_set({DType::kI64}));
  const SymDims &cache = c.dims(0), &update = c.dims(1);
  const size_t axis = sequence_axis(*c.node, cache.size());
  SymDims expected = cache;
  if (update.size() == cache.size()) expected[axis] = update[axis];
  require_dims(c, 1, expected);
  if (update[axis].is_constant() && cache[axis].is_constant() &&
      update[axis].value() > cache[axis].value())
    c.error("an update of {} does not fit a cache of {}", update[axis].value(),
            cache[axis].value());
  if (c.has(2)) require_vector(c, 2, cache[0]);
  c.set(0, t, cache);
}

void reference(const ReferenceContext& c) {
  check_shapes(c);
  const TensorView &update = c.inputs[1], &y = c.outputs[0];
  const size_t axis = sequence_axis(*c.node, y.dims.size());
  const bool circular = c.attrs().get_string("mode", "linear") == "circular";
  const int64_t length = y.dims[axis];
  std::vector<int64_t> starts(static_cast<size_t>(y.dims[0]), 0);
  if (c.has(2)) starts = int_values(c.inputs[2]);
  for (const int64_t start : starts)
    if (start < 0 || (!circular && start > length - update.dims[axis]))
      fail(Status::kRange, "an update of {} at {} does not fit a cache of {}", update.dims[axis],
           start, length);
  copy_elements(c.inputs[0], y);
  dispatch_storage(y.dtype, [&]<class T>() {
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
}

}  // namespace xc
