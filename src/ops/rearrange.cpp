// Ops that move elements by a rule on their indices: SpaceToDepth, DepthToSpace, ReverseSequence,
// Trilu, OneHot.

#include "ops/support.h"

namespace xc {

namespace {

// ---- DepthToSpace, SpaceToDepth -----------------------------------------------------------------

Dim exact_div(const InferContext& c, const Dim& d, int64_t by) {
  if (d.is_constant() && d.value() % by != 0) c.error("dim {} is no multiple of {}", d.value(), by);
  return floor_div(d, Dim(by));
}

void infer_depth_to_space(InferContext& c) {
  const SymDims& in = c.dims(0);
  if (in.size() != 4) c.error("the input has rank {}, expected 4", in.size());
  const int64_t b = c.attrs().get_int("blocksize", 1);
  c.set(0, c.dtype(0),
        {in[0], exact_div(c, in[1], checked_mul(b, b)), in[2] * Dim(b), in[3] * Dim(b)});
}

void infer_space_to_depth(InferContext& c) {
  const SymDims& in = c.dims(0);
  if (in.size() != 4) c.error("the input has rank {}, expected 4", in.size());
  const int64_t b = c.attrs().get_int("blocksize", 1);
  c.set(0, c.dtype(0),
        {in[0], in[1] * Dim(checked_mul(b, b)), exact_div(c, in[2], b), exact_div(c, in[3], b)});
}

/// Visits depth index [n, d, h, w] and the space index [n, c, h b + i, w b + j] it is paired with.
/// DCR orders the depth as (i, j, c), CRD as (c, i, j).
void pair_depth_space(const TensorView& depth, const TensorView& space, int64_t b, bool crd,
                      const std::function<void(int64_t, int64_t)>& move) {
  if (space.dims[1] * b * b != depth.dims[1] || depth.dims[2] * b != space.dims[2] ||
      depth.dims[3] * b != space.dims[3])
    fail(Status::kRange, "dims are no multiple of the block size");
  const int64_t channels = space.dims[1];
  for_each_coordinate(depth.dims, [&](std::span<const int64_t> at) {
    const int64_t block = crd ? at[1] % (b * b) : at[1] / channels;
    const int64_t channel = crd ? at[1] / (b * b) : at[1] % channels;
    const int64_t to[] = {at[0], channel, at[2] * b + block / b, at[3] * b + block % b};
    move(offset_of(at, depth.strides), offset_of(to, space.strides));
  });
}

void reference_depth_to_space(const ReferenceContext& c) {
  const bool crd = c.attrs().get_string("mode", "DCR") == "CRD";
  dispatch_storage(c.inputs[0].dtype, [&]<class T>() {
    pair_depth_space(c.inputs[0], c.outputs[0], c.attrs().get_int("blocksize", 1), crd,
                     [&](int64_t depth, int64_t space) {
                       c.outputs[0].as<T>()[space] = c.inputs[0].as<T>()[depth];
                     });
  });
}

void reference_space_to_depth(const ReferenceContext& c) {
  const bool crd = c.attrs().get_string("mode", "DCR") == "CRD";
  dispatch_storage(c.inputs[0].dtype, [&]<class T>() {
    pair_depth_space(c.outputs[0], c.inputs[0], c.attrs().get_int("blocksize", 1), crd,
                     [&](int64_t depth, int64_t space) {
                       c.outputs[0].as<T>()[depth] = c.inputs[0].as<T>()[space];
                     });
  });
}

// ---- ReverseSequence ----------------------------------------------------------------------------

void infer_reverse_sequence(InferContext& c) {
  check_dtype(c, 1, type_set({DType::kI64}));
  const SymDims& in = c.dims(0);
  const int64_t time = c.attrs().get_int("time_axis", 0),
                batch = c.attrs().get_int("batch_axis", 1);
  if (in.size() < 2 || time == batch) c.error("axes {} and {} of rank {}", time, batch, in.size());
  const SymDims& lengths = c.dims(1);
  if (lengths.size() != 1) c.error("sequence_lens have rank {}", lengths.size());
  same_dim(lengths[0], in[static_cast<size_t>(batch)], "batch size");
  infer_same(c);
}

void reference_reverse_sequence(const ReferenceContext& c) {
  const TensorView &x = c.inputs[0], &y = c.outputs[0];
  const auto time = static_cast<size_t>(c.attrs().get_int("time_axis", 0));
  const auto batch = static_cast<size_t>(c.attrs().get_int("batch_axis", 1));
  const std::vector<int64_t> lengths = int_values(c.inputs[1]);
  if (static_cast<int64_t>(lengths.size()) != x.dims[batch])
    fail(Status::kRange, "{} lengths", lengths.size());
  for (int64_t n : lengths)
    if (n < 0 || n > x.dims[time])
      fail(Status::kRange, "sequence length {} of {}", n, x.dims[time]);
  dispatch_storage(x.dtype, [&]<class T>() {
    for_each_coordinate(y.dims, [&](std::span<const int64_t> at) {
      const int64_t n = lengths[static_cast<size_t>(at[batch])];
      const int64_t moved = at[time] < n ? n - 1 - 2 * at[time] : 0;
      y.as<T>()[offset_of(at, y.strides)] =
          x.as<T>()[offset_of(at, x.strides) + moved * x.strides[time]];
    });
  });
}

// ---- Trilu --------------------------------------------------------------------------------------

void infer_trilu(InferContext& c) {
  check_dtype(c, 1, type_set({DType::kI64}));
  if (c.rank(0) < 2) c.error("the input has rank {}, expected at least 2", c.rank(0));
  infer_same(c);
}

void reference_trilu(const ReferenceContext& c) {
  const TensorView &x = c.inputs[0], &y = c.outputs[0];
  const int64_t k = c.has(1) ? scalar_int(c.inputs[1]) : 0;
  const bool upper = c.attrs().get_int("upper", 1) != 0;
  const size_t rank = y.dims.size();
  dispatch_storage(x.dtype, [&]<class T>() {
    for_each_coordinate(y.dims, [&](std::span<const int64_t> at) {
      const int64_t row = at[rank - 2], column = at[rank - 1];
      // No column - row: k may be any number.
      const bool kept = upper ? column - row >= k : column - row <= k;
      y.as<T>()[offset_of(at, y.strides)] = kept ? x.as<T>()[offset_of(at, x.strides)] : T{};
    });
  });
}

// ---- OneHot -------------------------------------------------------------------------------------

void infer_one_hot(InferContext& c) {
  check_dtype(c, 0, kNumbers);
  check_dtype(c, 1, kNumbers);
  if (c.rank_known(2) && element_count(c.dims(2)).is_constant() &&
      element_count(c.dims(2)) != Dim(2))
    c.error("values have dims {}, expected off and on", to_text(c.dims(2)));
  const SymDims& indices = c.dims(0);
  const size_t axis = normalise_axis(c.attrs().get_int("axis", -1), indices.size() + 1);
  const auto depth = c.elements(1);
  std::optional<Dim> count;
  if (depth && depth->size() == 1)
    count = depth->front();
  else if (c.inputs[1].value && *c.inputs[1].value && c.inputs[1].value->count() == 1)
    count = load_int64(c.inputs[1].value->data(), c.dtype(1), 0);  // a float depth truncates
  SymDims out = indices;
  out.insert(out.begin() + static_cast<std::ptrdiff_t>(axis), count ? *count : c.fresh("OneHot"));
  c.set(0, c.dtype(2), std::move(out));
}

void reference_one_hot(const ReferenceContext& c) {
  const TensorView &indices = c.inputs[0], &values = c.inputs[2], &y = c.outputs[0];
  const size_t axis = normalise_axis(c.attrs().get_int("axis", -1), y.dims.size());
  if (values.count() != 2) fail(Status::kRange, "{} values, expected off and on", values.count());
  const int64_t depth = y.dims[axis];
  dispatch_storage(y.dtype, [&]<class T>() {
    for_each_coordinate(y.dims, [&](std::span<const int64_t> at) {
      const int64_t from = offset_of(at.first(axis), indices.strides) +
                           offset_of(at.subspan(axis + 1), indices.strides.subspan(axis));
      const int64_t pick = load_int64(indices.data, indices.dtype, from);
      const bool on = (pick < 0 ? pick + depth : pick) == at[axis];
      y.as<T>()[offset_of(at, y.strides)] = values.as<T>()[on ? values.strides[0] : 0];
    });
  });
}

}  // namespace

void register_rearrange(OpList& ops) {
  const AttrSpec blocksize{"blocksize", AttrKind::kInt, true, 1, 1 << 16};
  AttrSpec mode{"mode", AttrKind::kString};
  mode.choices = "DCR|CRD";
  ops.push_back({.name = "DepthToSpace",
                 .attrs = {blocksize, mode},
                 .infer = infer_depth_to_space,
                 .reference = reference_depth_to_space});
  ops.push_back({.name = "SpaceToDepth",
                 .attrs = {blocksize, mode},
                 .infer = infer_space_to_depth,
                 .reference = reference_space_to_depth});
  ops.push_back({.name = "ReverseSequence",
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .attrs = {{"batch_axis", AttrKind::kInt, false, 0, 1},
                           {"time_axis", AttrKind::kInt, false, 0, 1}},
                 .infer = infer_reverse_sequence,
                 .reference = reference_reverse_sequence});
  ops.push_back({.name = "Trilu",
                 .min_inputs = 1,
                 .max_inputs = 2,
                 .attrs = {{"upper", AttrKind::kInt, false, 0, 1}},
                 .infer = infer_trilu,
                 .reference = reference_trilu});
  ops.push_back({.name = "OneHot",
                 .min_inputs = 3,
                 .max_inputs = 3,
                 .attrs = {{"axis", AttrKind::kInt}},
                 .infer = infer_one_hot,
                 .reference = reference_one_hot});
}

}  // namespace xc
