#include "tier/verification.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "ops/infer.h"
#include "plan/fusion/index_map.h"
#include "tier/fenced_memory.h"
#include "tier/region_part.h"

namespace xc {

namespace {

using Place = FencedMemory::Place;

/// Sizes or strides; nullopt where one has no value.
std::optional<Dims> values_of(const SymDims& dims, const Symbols& symbols) {
  Dims out;
  for (const Dim& d : dims) {
    const auto value = d.evaluate(lookup_in(symbols));
    if (!value) return std::nullopt;
    out.push_back(*value);
  }
  return out;
}

Dims evaluate(const SymDims& dims, const Symbols& symbols) {
  const auto sizes = values_of(dims, symbols);
  if (!sizes || std::any_of(sizes->begin(), sizes->end(), [](int64_t size) { return size < 0; }))
    fail(Status::kInvalidArgument, "a size has no value here");
  return *sizes;
}

/// Made-up values. Edges: zeros of both signs, denormal and small numbers, arguments at the end of
/// what exp() can take; with `special`, NaN and infinity.
enum class Values : uint8_t { kEdges, kPositive };

/// `range`: of indices into an axis of that size; negative ones count from its end.
Tensor made_up(DType dtype, const Dims& dims, std::mt19937_64& random, Values values, bool special,
               std::optional<int64_t> range) {
  Tensor out(dtype, dims);
  if (range) {
    if (*range == 0 && out.count() > 0) fail(Status::kRange, "nothing to pick from");
    for (int64_t i = 0; i < out.count(); ++i)
      store_int64(out.data(), dtype, i,
                  static_cast<int64_t>(random() % static_cast<uint64_t>(2 * *range)) - *range);
    return out;
  }
  // Of one number each: the standard's distributions take several, and a logarithm.
  const auto positive = [](uint64_t bits) {
    return 0.25 + 1.75 * 0x1p-64 * static_cast<double>(bits);
  };
  // A sum of three, close to a normal one of deviation 1.5.
  const auto normal = [](uint64_t bits) {
    constexpr uint64_t kPart = (1 << 19) - 1;
    const uint64_t sum = (bits & kPart) + (bits >> 19 & kPart) + (bits >> 38 & kPart);
    return 3 * (static_cast<double>(sum) * 0x1.000002p-19 - 1.5);
  };
  constexpr std::array<double, 12> kEdges{0.0,  -0.0,  1.0,  -1.0,  1e-30, -1e-30,
                                          20.0, -20.0, 88.0, -88.0, 1e-40, -1e-40};
  const int64_t n = out.count();
  for (int64_t i = 0; i < n; ++i) {
    if (is_float(dtype)) {
      const uint64_t bits = random(), pick = bits >> 59;
      double v = values == Values::kEdges ? normal(bits) : positive(bits);
      if (values == Values::kEdges && special) {
        if (pick < kEdges.size()) v = kEdges[pick];
        if (pick == 29) v = -INFINITY;
        if (pick == 30) v = std::nan("");
        if (pick == 31) v = INFINITY;
      }
      store_double(out.data(), dtype, i, v);
    } else {
      store_int64(out.data(), dtype, i,
                  static_cast<int64_t>(random() % (dtype == DType::kBool ? 2 : 4)));
    }
  }
  return out;
}

/// The sizes of the axes that the values of a region's input pick from, if they are indices.
std::vector<Dim> picked_sizes(const Graph& graph, ValueId input) {
  std::vector<Dim> out;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const auto map = index_map(graph, id);
    if (!map || map->kind != IndexMap::Kind::kGather || node.inputs[1] != input) continue;
    const SymDims& data = *graph.value(node.inputs[0]).type.dims;
    for (size_t a = 0; a < data.size(); ++a)
      if (map->parts[0].axes[a] == IndexMap::Part::kPicked) out.push_back(data[a]);
  }
  return out;
}

/// An operand between fences.
struct Fenced {
  std::unique_ptr<FencedMemory> memory;  ///< null: not fenced
  Tensor tensor;
  Tensor values;                ///< an input in row-major order: what it was filled with
  std::vector<std::byte> held;  ///< an input in another order: what its memory held
  std::vector<bool> gaps;       ///< an output with gaps: per byte, whether it is in one
};

Fenced fenced(DType dtype, const Dims& dims, const Dims& strides, Place place, uint8_t fence,
              bool guard_pages) {
  int64_t low = 0, high = 0;
  const bool empty = element_count(dims) == 0;
  for (size_t i = 0; i < strides.size() && !empty; ++i) {
    const int64_t reach = (dims[i] - 1) * strides[i];
    (reach < 0 ? low : high) += reach;
  }
  const int64_t size = element_size(dtype);
  Fenced out;
  out.memory = std::make_unique<FencedMemory>(empty ? 0 : checked_mul(high - low + 1, size), size,
                                              place, fence, guard_pages);
  out.tensor = Tensor(Buffer::wrap(out.memory->data(), out.memory->bytes(), {}), -low * size, dtype,
                      dims, strides);
  return out;
}

Fenced fenced_input(const Tensor& values, const Dims& strides, Place place, bool guard_pages) {
  Fenced out =
      fenced(values.dtype(), values.dims(), strides, place, FencedMemory::kNanByte, guard_pages);
  // An operand that repeats elements (stride 0) holds one of each: the last one written stays.
  copy_elements(values.view(), out.tensor.view());
  if (values.contiguous() && out.tensor.contiguous())
    out.values = values;
  else
    out.held.assign(out.memory->data(), out.memory->data() + out.memory->bytes());
  return out;
}

/// Whether an input is still what it was.
bool unchanged(const Fenced& input) {
  const std::byte* now = input.memory->data();
  if (!input.values) return std::equal(input.held.begin(), input.held.end(), now);
  const auto* before = static_cast<const std::byte*>(input.values.data());
  return std::equal(now, now + input.values.byte_size(), before);
}

Fenced fenced_output(DType dtype, const Dims& dims, const Dims& strides, Place place,
                     bool guard_pages) {
  Fenced out = fenced(dtype, dims, strides, place, FencedMemory::kMarkByte, guard_pages);
  const int64_t bytes = out.memory->bytes(), elements = out.tensor.count();
  if (bytes == 0) return out;
  std::memset(out.memory->data(), FencedMemory::kNanByte, static_cast<size_t>(bytes));
  if (elements * element_size(dtype) == bytes) return out;
  // Its gaps: what a copy of zeros over ones does not reach, one byte standing for an element.
  const int64_t size = element_size(dtype);
  Tensor marks(Buffer::allocate(bytes / size), out.tensor.byte_offset() / size, DType::kU8, dims,
               strides);
  std::memset(marks.buffer()->data(), 1, static_cast<size_t>(bytes / size));
  Tensor zeros(DType::kU8, dims);
  std::memset(zeros.data(), 0, static_cast<size_t>(elements));
  copy_elements(zeros.view(), marks.view());
  for (int64_t b = 0; b < bytes; ++b)
    out.gaps.push_back(marks.buffer()->data()[b / size] != std::byte{0});
  return out;
}

/// The strides `operand` has with these dims.
Dims strides_of(const Operand& operand, const Dims& dims, const Symbols& symbols) {
  if (operand.contiguous()) return contiguous_strides(dims);
  const auto strides =
      values_of(operand.strides, symbols);  // those of a reversed axis are negative
  if (!strides) fail(Status::kInvalidArgument, "a stride has no value here");
  return *strides;
}

/// Is an operand a constant of the region's graph? A view of a constant is an input of it, and
/// comes with the others from a run.
bool is_known(const Verification& v, size_t operand) {
  return v.extracted.graph.value(v.extracted.operands[operand]).is_constant();
}

/// What a kernel has written where it must not: empty if nothing.
std::string wrote_astray(const std::vector<Fenced>& inputs, const std::vector<Fenced>& outputs,
                         const FencedMemory& scratch, const FencedMemory& shared) {
  const auto named = [](bool input, size_t k) {
    return fmt::format("{} {}", input ? "input" : "output", k);
  };
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (const std::string damage = outputs[k].memory->damage(); !damage.empty())
      return fmt::format("writes outside of {}, {}", named(false, k), damage);
    for (size_t b = 0; b < outputs[k].gaps.size(); ++b)
      if (outputs[k].gaps[b] && outputs[k].memory->data()[b] != std::byte{FencedMemory::kNanByte})
        return fmt::format("writes between the elements of {}", named(false, k));
  }
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].memory) continue;
    if (const std::string damage = inputs[k].memory->damage(); !damage.empty())
      return fmt::format("writes outside of {}, {}", named(true, k), damage);
    if (!unchanged(inputs[k])) return fmt::format("changes {}", named(true, k));
  }
  for (const FencedMemory* memory : {&scratch, &shared})
    if (const std::string damage = memory->damage(); !damage.empty())
      return fmt::format("writes outside of its {} memory, {}",
                         memory == &scratch ? "scratch" : "shared", damage);
  return {};
}

/// What of floats is as it was before the run, which no operator makes of made-up inputs: empty if
/// nothing.
std::string left_out(const std::vector<Tensor>& outputs) {
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!is_float(outputs[k].dtype())) continue;
    const Tensor dense = outputs[k].to_contiguous();
    const auto* const bytes = static_cast<const uint8_t*>(dense.data());
    const int64_t size = element_size(dense.dtype());
    for (int64_t i = 0; i < dense.count(); ++i)
      if (std::all_of(bytes + i * size, bytes + (i + 1) * size,
                      [](uint8_t b) { return b == FencedMemory::kNanByte; }))
        return fmt::format("does not write element {} of output {}", i, k);
  }
  return {};
}

/// Lays the operands out as the kernel was made for at one place, runs it between fences and
/// compares with the reference.
std::string run_at(Verification& v, const std::vector<Tensor>& values, const Symbols& symbols,
                   Place place, bool live, const std::optional<RegionPart>& part,
                   std::optional<Expected>& expected) {
  std::vector<Fenced> inputs, outputs;
  std::vector<BoundOperand> in, out;
  std::vector<void*> buffers;
  std::vector<Tensor> laid_out, got;
  size_t next = 0;
  for (size_t k = 0; k < v.spec.inputs.size(); ++k) {
    const Operand& operand = v.spec.inputs[k];
    const bool known = is_known(v, k);
    if (known && is_table(v.extracted.graph, v.extracted.operands[k])) {
      inputs.emplace_back();
      inputs.back().tensor = operand.constant.held();
      continue;
    }
    const Tensor data = known ? operand.constant.held() : values[next++];
    inputs.push_back(
        fenced_input(data, strides_of(operand, data.dims(), symbols), place, v.guard_pages));
    if (!known) laid_out.push_back(inputs.back().tensor);
  }
  const Graph& graph = part ? part->graph() : v.extracted.graph;
  if (part) laid_out = part->of_inputs(laid_out);
  if (!expected) expected = evaluate_region(graph, laid_out);
  for (size_t k = 0; k < expected->outputs.size(); ++k) {
    const Tensor& like = expected->outputs[k];
    const Dims dims =
        part ? *to_concrete(*v.extracted.graph.value(graph.outputs[k]).type.dims) : like.dims();
    outputs.push_back(fenced_output(
        like.dtype(), dims, strides_of(v.spec.outputs[k], dims, symbols), place, v.guard_pages));
    got.push_back(outputs.back().tensor);
  }
  for (auto* operands : {&inputs, &outputs})
    for (Fenced& o : *operands) {
      (operands == &inputs ? in : out).push_back({o.tensor.dims(), o.tensor.strides()});
      buffers.push_back(o.tensor.data());
    }
  const auto bound = v.kernel.bind({in, out, true});
  // Working memory is the runtime's own: at multiples of 64 always, not cleared.
  const Place end = place == Place::kAtEnd ? Place::kAtEnd : Place::kAligned;
  FencedMemory scratch(bound->scratch_bytes, 64, end, FencedMemory::kMarkByte, v.guard_pages);
  FencedMemory shared(bound->shared_bytes, 64, end, FencedMemory::kMarkByte, v.guard_pages);
  try {
    bound->run_all({buffers.data(), scratch.data(), shared.data()});
  } catch (const Error& error) {
    if (error.status() == Status::kOutOfMemory) throw;
    return fmt::format("fails where the operators do not: {}", error.message());
  }

  if (std::string wrote = wrote_astray(inputs, outputs, scratch, shared); !wrote.empty())
    return wrote;
  if (part) {
    if (std::string left = live ? "" : left_out(got); !left.empty()) return left;
    got = part->of_outputs(got);
  }
  for (const Tensor& output : got) v.compared += output.count();
  return compare_region(graph, laid_out, *expected, got, &v.worst, live, v.spec.numerics);
}

/// Elements of the largest result of reference kernels: of more a part is compared.
constexpr int64_t kMostForReference = 1 << 19;
constexpr std::array<Place, 3> kPlaces{Place::kAligned, Place::kOffset, Place::kAtEnd};

std::string check(Verification& v, const std::vector<Tensor>& values, const Symbols& symbols,
                  bool live, std::span<const Place> places) {
  const Graph& graph = v.extracted.graph;
  const auto part = RegionPart::of(graph, largest_result(graph, symbols), kMostForReference);
  std::optional<Expected> expected;
  for (const Place place : places) {
    if (place == Place::kAtEnd && !v.guard_pages) break;
    std::string different = run_at(v, values, symbols, place, live, part, expected);
    if (!different.empty())
      return place == Place::kAligned ? different
                                      : different + " (operands not at multiples of 64 bytes)";
  }
  return {};
}

/// The symbols of the operands' dims, solved from concrete dims where a dim is a lone symbol.
void solve(const Verification& v, const std::vector<Tensor>& graph_inputs, Symbols& out) {
  size_t next = 0;
  for (size_t k = 0; k < v.spec.inputs.size(); ++k) {
    if (is_known(v, k)) continue;
    const Operand& operand = v.spec.inputs[k];
    const Tensor& t = graph_inputs[next++];
    for (size_t axis = 0; axis < operand.dims.size(); ++axis)
      if (const auto symbol = operand.dims[axis].as_symbol()) out.emplace(*symbol, t.dims()[axis]);
  }
}

/// What a check of these sizes goes through: the operands, and for tables what is picked; or the
/// largest result on the way, where that is more. nullopt when these sizes do not go together.
std::optional<int64_t> elements_of(const Verification& v, const Symbols& symbols) try {
  int64_t total = 0;
  for (size_t k = 0; k < v.spec.inputs.size(); ++k)
    if (!is_table(v.extracted.graph, v.extracted.operands[k]))
      total = checked_add(total, element_count(evaluate(v.spec.inputs[k].dims, symbols)));
  const Graph& graph = v.extracted.graph;
  for (NodeId id : graph.order())
    if (is_picked_from(graph, id, 0))
      total = checked_add(total, element_count(evaluate(
                                     *graph.value(graph.node(id).outputs[0]).type.dims, symbols)));
  return std::max(total, largest_result(graph, symbols));
} catch (const Error&) {
  return std::nullopt;
}

/// Compares once on made-up inputs; nullopt when these sizes do not go together.
std::optional<std::string> try_sizes(Verification& v, const Symbols& symbols, Values values,
                                     std::mt19937_64& random, bool special,
                                     std::span<const Place> places) {
  std::vector<Tensor> inputs;
  try {
    for (size_t k = 0; k < v.spec.inputs.size(); ++k) {
      const Operand& operand = v.spec.inputs[k];
      if (is_known(v, k)) continue;
      if (operand.constant) {  // a view of one
        inputs.push_back(operand.constant.held());
        continue;
      }
      const Dims sizes =
          evaluate(picked_sizes(v.extracted.graph, v.extracted.operands[k]), symbols);
      std::optional<int64_t> range;
      if (!sizes.empty()) range = *std::min_element(sizes.begin(), sizes.end());
      inputs.push_back(
          made_up(operand.dtype, evaluate(operand.dims, symbols), random, values, special, range));
    }
  } catch (const Error& error) {
    if (error.status() == Status::kOutOfMemory) throw;
    return std::nullopt;
  }
  try {
    std::string different = check(v, inputs, symbols, false, places);
    if (different.empty()) return different;
    std::string sizes;
    for (const auto& [symbol, value] : symbols) sizes += fmt::format(" {}={}", symbol, value);
    return fmt::format("on made-up inputs{}: {}", sizes, different);
  } catch (const Error& error) {
    if (error.status() == Status::kInternal) return error.message();
    if (error.status() == Status::kOutOfMemory) throw;
    return std::nullopt;  // sizes the operators refuse
  }
}

constexpr int64_t kMaxElements = 1 << 16;  ///< of one comparison
/// Of all but the largest size: reference kernels take a hundred times as long as the fused one,
/// and would cost several times the compile where rows are long.
constexpr int64_t kMaxTotal = 1 << 15;

/// Sizes to verify at, and what they make of the region.
struct Round {
  int64_t elements = 0;
  Symbols sizes;
};

/// The symbols that a region's operands depend on.
std::vector<std::string> symbols_of(const StepSpec& spec) {
  std::vector<std::string> names;
  for (const Operand& operand : spec.inputs) {
    for (const Dim& d : operand.dims) d.collect_symbols(names);
    for (const Dim& d : operand.strides) d.collect_symbols(names);
  }
  // A part of a larger value.
  for (const Operand& operand : spec.outputs)
    for (const Dim& d : operand.strides) d.collect_symbols(names);
  return names;
}

/// Small sizes, others for each symbol in every round.
std::vector<Round> mixed_rounds(const Verification& v, const std::vector<std::string>& names) {
  constexpr std::array<int64_t, 7> kSizes{1, 2, 17, 3, 16, 5, 33};
  std::vector<Round> out;
  for (size_t round = 0; round < (names.empty() ? 1 : kSizes.size()); ++round) {
    Symbols sizes;
    for (size_t k = 0; k < names.size(); ++k) sizes[names[k]] = kSizes[(round + k) % kSizes.size()];
    if (const auto elements = elements_of(v, sizes)) out.push_back({*elements, std::move(sizes)});
  }
  return out;
}

/// One with that size for every symbol, where that is not too much.
std::optional<Round> round_of(const Verification& v, const std::vector<std::string>& names,
                              int64_t size, int64_t most = kMaxElements) {
  Symbols sizes;
  for (const std::string& name : names) sizes[name] = size;
  const auto elements = elements_of(v, sizes);
  if (!elements || *elements > most) return std::nullopt;
  return Round{*elements, std::move(sizes)};
}

/// Rows that go through products are worked on in blocks, the more the shorter they are
/// (plan/fusion/block_tiles.h): the largest size there is room for has a whole one and a part.
std::optional<Round> block_round(const Verification& v, const std::vector<std::string>& names) {
  const Graph& graph = v.extracted.graph;
  const bool products = std::any_of(graph.order().begin(), graph.order().end(),
                                    [&](NodeId n) { return graph.node(n).op->name == "MatMul"; });
  if (names.empty() || !products) return std::nullopt;
  for (const int64_t size : {257, 129, 65, 33, 17})
    if (auto round = round_of(v, names, size, 2 * kMaxElements)) return round;
  return std::nullopt;
}

/// What a window leaves, or a slice, may be nothing at small sizes.
void add_larger_rounds(const Verification& v, const std::vector<std::string>& names,
                       std::vector<Round>& rounds) {
  if (names.empty()) return;
  for (const int64_t size : {67, 130, 259, 515, 1031, 2053, 4099})
    if (auto round = round_of(v, names, size)) rounds.push_back(std::move(*round));
}

}  // namespace

Dim::Lookup lookup_in(const Symbols& symbols) {
  return [&symbols](const std::string& symbol) {
    const auto it = symbols.find(symbol);
    return it == symbols.end() ? std::nullopt : std::optional(it->second);
  };
}

int64_t largest_result(const Graph& graph, const Symbols& symbols) {
  const Dim::Lookup size_of = lookup_in(symbols);
  int64_t largest = 0;
  for (NodeId id : graph.order())
    for (ValueId v : graph.node(id).outputs)
      if (v != kNone && graph.value(v).type.dims)
        largest = std::max(largest,
                           element_count(*graph.value(v).type.dims).evaluate(size_of).value_or(0));
  return largest;
}

std::string verify_synthetic(Verification& v) {
  const std::vector<std::string> names = symbols_of(v.spec);
  const Graph& graph = v.extracted.graph;
  const bool scalar_only = std::all_of(graph.order().begin(), graph.order().end(), [&](NodeId n) {
    return graph.node(n).op->scalar != nullptr || index_map(graph, n);
  });
  std::mt19937_64 random(20240229);
  std::vector<Round> rounds = mixed_rounds(v, names);
  int64_t largest = 0, total = 0;
  for (const Round& round : rounds)
    if (round.elements <= kMaxElements) largest = std::max(largest, round.elements);
  for (const Round& round : rounds) {
    if (round.elements > kMaxElements) continue;
    for (const Values values : {Values::kEdges, Values::kPositive}) {
      if (round.elements < largest || values == Values::kPositive) {
        if (total + round.elements > kMaxTotal) break;
        total += round.elements;
      }
      const auto different = try_sizes(v, round.sizes, values, random, scalar_only, kPlaces);
      if (!different) break;
      if (!different->empty()) return *different;
    }
  }
  if (const auto round = block_round(v, names)) {
    const auto different = try_sizes(v, round->sizes, Values::kEdges, random, scalar_only,
                                     std::span(kPlaces).first(1));
    if (different && !different->empty()) return *different;
  }
  // Sizes that the model fixes are as large as they are: once then, at the smallest there is.
  std::stable_sort(rounds.begin(), rounds.end(),
                   [](const Round& a, const Round& b) { return a.elements < b.elements; });
  add_larger_rounds(v, names, rounds);
  if (!v.seen.empty()) rounds.push_back({0, v.seen});
  for (const Round& round : rounds) {
    if (v.compared > 0) break;
    const auto different =
        try_sizes(v, round.sizes, Values::kEdges, random, scalar_only, std::span(kPlaces).first(1));
    if (different && !different->empty()) return *different;
  }
  return {};
}

std::string verify_live(Verification& v, const std::vector<Tensor>& inputs, Symbols symbols) {
  if (inputs.size() != v.extracted.graph.inputs.size())
    fail(Status::kInternal, "{} inputs to verify a region of {}", inputs.size(),
         v.extracted.graph.inputs.size());
  solve(v, inputs, symbols);
  return check(v, inputs, symbols, true, kPlaces);
}

}  // namespace xc
