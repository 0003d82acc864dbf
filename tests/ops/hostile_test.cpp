// Every operator with one thing changed to what no exporter means: a status that names the node,
// and the attribute where that was changed, or a result of the inferred type; in bounded time and
// memory; and with two things changed, drawn by a seed.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <tuple>

#include "ops/containers.h"
#include "ops/infer.h"
#include "ops/mutants.h"
#include "runtime/session.h"
#include "support/environment.h"
#include "support/sessions.h"
#include "tier/engine_factory.h"

namespace xc::test {

namespace {

/// Results of more elements are the memory budget's business, not the operator's.
constexpr int64_t kManyElements = 1 << 16;
/// Seconds one mutant may take; generous, for the sanitizers.
constexpr double kLongest = 30;
/// Cases per operator that are varied: the smallest inputs of a file first.
constexpr size_t kSeeds = 3;

std::map<const OpDef*, std::vector<Mutant>> seeds() {
  std::map<const OpDef*, std::vector<Mutant>> out;
  for_each_case([&](OpCase& problem) {
    Mutant seed;
    if (!seed_of(problem, seed)) return;
    auto& list = out[seed.node.op];
    if (list.size() < kSeeds) list.push_back(std::move(seed));
  });
  return out;
}

/// Operators that draw numbers, and those on containers.
std::vector<Mutant> seeds_without_cases() {
  const Tensor x = Tensor::of<float>({0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f}, {2, 3});
  const Tensor list = make_sequence({x, x, x}), one = Tensor::scalar<int64_t>(1);
  const Tensor map = make_map({Tensor::of<int64_t>({5, 1}), Tensor::of<float>({1, 2})});
  const std::vector<int64_t> dims{2, 3}, labels{5, 1, 3};
  const char* ml = "ai.onnx.ml";
  return {
      seed_of("RandomUniform", "", {}, {{"shape", dims}, {"seed", 1.0}}),
      seed_of("RandomNormal", "", {}, {{"shape", dims}, {"seed", 1.0}}),
      seed_of("RandomUniformLike", "", {x}),
      seed_of("RandomNormalLike", "", {x}),
      seed_of("Bernoulli", "", {x}),
      seed_of("Multinomial", "", {x}, {{"sample_size", int64_t{4}}}),
      seed_of("SequenceEmpty", "", {}),
      seed_of("SequenceConstruct", "", {x, x}),
      seed_of("SequenceAt", "", {list, one}),
      seed_of("SequenceInsert", "", {list, x, one}),
      seed_of("SequenceErase", "", {list, one}),
      seed_of("SequenceLength", "", {list}),
      seed_of("SplitToSequence", "", {x, Tensor::of<int64_t>({1, 1})}),
      seed_of("SplitToSequence", "", {x}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}}),
      seed_of("ConcatFromSequence", "", {list}, {{"axis", int64_t{0}}}),
      seed_of("Optional", "", {x}),
      seed_of("OptionalHasElement", "", {x}),
      seed_of("OptionalGetElement", "", {x}),
      seed_of("ImageDecoder", "", {Tensor::of<uint8_t>({66, 77, 1, 2, 3, 4, 5, 6})}),
      seed_of("ZipMap", ml, {x}, {{"classlabels_int64s", labels}}),
      seed_of("CastMap", ml, {map}, {{"map_form", std::string("SPARSE")}, {"max_map", int64_t{8}}}),
      seed_of("DictVectorizer", ml, {map}, {{"int64_vocabulary", labels}})};
}

Type type_of(const Tensor& x, const OpDef& op) {
  if (x.dtype() != DType::kTensor) return Type::tensor(x.dtype(), to_symbolic(x.dims()));
  return op.domain.empty() ? sequence_type(Type::tensor(DType::kF32))
                           : map_type(DType::kI64, DType::kF32);
}

Graph graph_of(const Mutant& mutant, bool constants) {
  Graph graph;
  Node node = mutant.node;
  for (size_t i = 0; i < mutant.inputs.size(); ++i) {
    const Tensor& x = mutant.inputs[i];
    if (!x) continue;
    const std::string name = fmt::format("x{}", i);
    const bool constant = constants && (is_integer(x.dtype()) || x.rank() == 0);
    node.inputs[i] =
        constant ? graph.add_constant(name, x) : graph.add_input(name, type_of(x, *node.op));
  }
  for (size_t k = 0; k < node.outputs.size(); ++k)
    if (node.outputs[k] != kNone) {
      node.outputs[k] = graph.add_value(fmt::format("y{}", k));
      graph.outputs.push_back(node.outputs[k]);
    }
  graph.add_node(std::move(node));
  return graph;
}

/// Runs body; what it says about a mutant that it refuses, or nullopt.
template <class Body>
std::optional<Error> refusal(const Mutant& mutant, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    CHECK_MESSAGE(error.status() != Status::kInternal, error.message());
    // The node, or an input of the graph.
    const bool placed = error.where().find("here") != std::string::npos ||
                        error.where().find("input 'x") != std::string::npos;
    CHECK_MESSAGE(placed, error.message(), " at ", error.where());
    if (mutant.blatant && error.status() == Status::kInvalidModel)
      CHECK_MESSAGE(error.message().find(mutant.attribute) != std::string::npos, error.message());
    return error;
  }
  return std::nullopt;
}

std::shared_ptr<Engine> quiet_engine() {
  Config config;
  config.set_jit(JitMode::kOff);
  config.threads = 1;
  return create_engine(config, {});
}

/// Elements of dims below kManyElements, at most about kManyElements^2.
int64_t checked_elements(const Dims& dims) {
  int64_t out = 1;
  for (const int64_t d : dims) out = std::min(out, kManyElements) * d;
  return out;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.dims() == b.dims() &&
         std::memcmp(a.to_contiguous().data(), b.to_contiguous().data(),
                     static_cast<size_t>(a.byte_size())) == 0;
}

int64_t elements_of(const std::vector<Type>& types) {
  int64_t out = 0;
  for (const Type& type : types)
    if (type.dims) {
      const auto dims = to_concrete(*type.dims);
      if (!dims) continue;
      for (const int64_t d : *dims)
        if (d >= kManyElements) return d;
      out = std::max(out, checked_elements(*dims));
    }
  return out;
}

/// Where outputs lie in tensors that are there is what inference says of them, refusals included.
void check_concrete_views(const Mutant& mutant) {
  const Node& node = mutant.node;
  if (!node.op->concrete_views) return;
  // Types are those that the graph was found valid with.
  if (refusal(mutant, [&] { infer_concrete(node, mutant.inputs, OpenSizes::kKept); })) return;
  std::vector<TensorView> inputs;
  for (const Tensor& x : mutant.inputs) inputs.push_back(x ? x.view() : TensorView{});
  std::vector<ConcreteView> views;
  std::vector<Type> types;
  const bool refused = refusal(mutant, [&] {
                         located(node.name, [&] { views = node.op->concrete_views(node, inputs); });
                       }).has_value();
  if (!refused && views.empty()) return;
  CHECK(refusal(mutant, [&] { types = infer_concrete(node, mutant.inputs); }).has_value() ==
        refused);
  for (size_t k = 0; k < std::min(views.size(), types.size()); ++k)
    CHECK(to_symbolic(views[k].dims) == *types[k].dims);
}

/// Inference and the reference of a mutant; true when it is refused.
bool refused_by_reference(const Mutant& mutant) {
  const OpDef& op = *mutant.node.op;
  const auto start = std::chrono::steady_clock::now();
  for (const bool constants : {false, true})
    refusal(mutant, [&] {
      Graph graph = graph_of(mutant, constants);
      infer_types(graph);
    });
  const bool refused = refusal(mutant, [&] {
                         const auto types = infer_concrete(mutant.node, mutant.inputs);
                         if (!op.reference || elements_of(types) > kManyElements) return;
                         const auto got = run_reference(mutant.node, mutant.inputs);
                         for (size_t k = 0; k < got.size(); ++k)
                           if (got[k]) CHECK(got[k].dtype() == types[k].dtype);
                       }).has_value();
  check_concrete_views(mutant);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  CHECK(took.count() < kLongest);
  return refused;
}

/// A session must answer as the reference does; false when that would be too large to try.
bool agrees_in_session(const std::shared_ptr<Engine>& engine, const Mutant& mutant) {
  std::vector<Tensor> inputs, expected;
  for (const Tensor& x : mutant.inputs)
    if (x) inputs.push_back(x);
  bool refused = false;
  std::string reason;
  try {
    const auto types = infer_concrete(mutant.node, mutant.inputs);
    if (elements_of(types) >= kManyElements) return false;
    expected = run_reference(mutant.node, mutant.inputs);
  } catch (const Error& error) {
    refused = true;
    reason = error.message();
  }
  try {
    Session session(Model::create(engine, graph_of(mutant, false)), {});
    const auto got = xc::testing::run(session, inputs);
    CHECK_MESSAGE(!refused, "a session ran what the reference refuses: ", reason);
    if (refused) return true;
    // Kernels compute in f32 and other orders than references, which compute in f64: what
    // overflows or cancels in one need not in the other.
    if (mutant.extreme) return true;
    OpCase problem;
    problem.tolerance = mutant.node.op->tolerance;
    for (size_t k = 0; k < expected.size(); ++k)
      if (expected[k]) problem.expected.push_back(expected[k]);
    REQUIRE(got.size() == problem.expected.size());
    for (size_t k = 0; k < got.size(); ++k) {
      const DType type = got[k].dtype();
      if (type == DType::kC64 || type == DType::kC128)
        CHECK(same_bytes(got[k], problem.expected[k]));
      else
        CHECK(difference(problem, k, got[k]) == "");
    }
  } catch (const Error& error) {
    CHECK_MESSAGE(error.status() != Status::kInternal, error.message());
    CHECK_MESSAGE(refused, "a session refuses what the reference answers: ", error.message());
  }
  return true;
}

/// Two random changes, one after the other, to a seed of a random operator.
void check_pair(const std::vector<Mutant>& all, const std::shared_ptr<Engine>& engine,
                uint64_t seed) {
  std::mt19937_64 random(seed);
  const Mutant& origin = all[random() % all.size()];
  Mutant mutant = random_mutant(random_mutant(origin, random), random);
  mutant.blatant = false;  // the error may be about the other change
  CAPTURE(seed);
  CAPTURE(origin.node.op->name);
  CAPTURE(mutant.what);
  refused_by_reference(mutant);
  if (origin.node.op->reference) agrees_in_session(engine, mutant);
}

}  // namespace

TEST_CASE("ops/hostile: inference and references answer with a status or a result") {
  size_t mutants = 0, refused = 0;
  for (const auto& [op, list] : seeds())
    for (const Mutant& seed : list)
      for_each_mutant(seed, [&](const Mutant& mutant) {
        CAPTURE(op->name);
        CAPTURE(mutant.what);
        refused += refused_by_reference(mutant);
        ++mutants;
      });
  MESSAGE(mutants << " mutants, " << refused << " refused");
  CHECK(refused > mutants / 4);
  CHECK(refused < mutants);
}

TEST_CASE("ops/hostile: sessions answer as the references do") {
  const auto engine = quiet_engine();
  size_t ran = 0;
  for (const auto& [op, list] : seeds()) {
    if (!op->reference) continue;
    for_each_mutant(list.front(), [&](const Mutant& mutant) {
      CAPTURE(op->name);
      CAPTURE(mutant.what);
      ran += agrees_in_session(engine, mutant);
    });
  }
  MESSAGE(ran << " mutants ran");
  CHECK(ran > 5000);
}

// Sizes that no index of 32 bits, no exact double or no count of bytes holds: declared alone, so
// that nothing of that size has to be there.
TEST_CASE("ops/hostile: inference answers to declared dims of any size") {
  constexpr int64_t kSizes[] = {INT32_MAX,        int64_t{INT32_MAX} + 1,
                                int64_t{1} << 32, (int64_t{1} << 53) + 1,
                                int64_t{1} << 62, INT64_MAX};
  size_t asked = 0, refused = 0;
  for (const auto& [op, list] : seeds())
    for (const Mutant& seed : list)
      for (size_t i = 0; i < seed.inputs.size(); ++i) {
        const int64_t rank = seed.inputs[i] ? seed.inputs[i].rank() : 0;
        for (int64_t axis = 0; axis <= rank; ++axis)  // the last one stands for all
          for (const int64_t size : kSizes) {
            if (rank == 0 || seed.inputs[i].dtype() == DType::kTensor) continue;
            CAPTURE(op->name);
            const std::string what = fmt::format("input {}, axis {}: {}", i, axis, size);
            CAPTURE(what);
            ++asked;
            refused += refusal(seed, [&] {
                         Graph graph = graph_of(seed, false);
                         Dims dims = seed.inputs[i].dims();
                         if (axis < rank) dims[static_cast<size_t>(axis)] = size;
                         if (axis == rank) std::fill(dims.begin(), dims.end(), size);
                         graph.value(*graph.find_value(fmt::format("x{}", i))).type =
                             Type::tensor(seed.inputs[i].dtype(), to_symbolic(dims));
                         infer_types(graph);
                       }).has_value();
          }
      }
  MESSAGE(asked << " asked, " << refused << " refused");
  CHECK(refused > asked / 4);
  CHECK(refused < asked);
}

// Repeat one: XC_HOSTILE_SEED=7 XC_HOSTILE_COUNT=1 build/release/tests/xc_test_ops -tc='*two
// things*'
TEST_CASE("ops/hostile: two things changed at once") {
  const auto engine = quiet_engine();
  std::vector<Mutant> all;
  for (const auto& [op, list] : seeds()) all.insert(all.end(), list.begin(), list.end());
  // By name: where operators lie in memory must not decide what a seed means.
  std::stable_sort(all.begin(), all.end(), [](const Mutant& a, const Mutant& b) {
    return std::tie(a.node.op->domain, a.node.op->name) <
           std::tie(b.node.op->domain, b.node.op->name);
  });
  const uint64_t first = number_from("XC_HOSTILE_SEED", 1);
  const uint64_t count = number_from("XC_HOSTILE_COUNT", 1000);
  for (uint64_t seed = first; seed < first + count; ++seed) check_pair(all, engine, seed);
}

TEST_CASE(
    "ops/hostile: sessions of random operators and containers answer with a status or a result") {
  const auto engine = quiet_engine();
  size_t ran = 0, refused = 0;
  for (const Mutant& seed : seeds_without_cases())
    for_each_mutant(seed, [&](const Mutant& mutant) {
      CAPTURE(mutant.node.op->name);
      CAPTURE(mutant.what);
      std::vector<Tensor> inputs;
      for (const Tensor& x : mutant.inputs)
        if (x) inputs.push_back(x);
      ++ran;
      try {
        Graph graph = graph_of(mutant, false);
        infer_types(graph);
        std::vector<Type> types;
        for (const ValueId v : graph.outputs) types.push_back(graph.value(v).type);
        if (elements_of(types) >= kManyElements) return;
        Session session(Model::create(engine, std::move(graph)), {});
        xc::testing::run(session, inputs);
      } catch (const Error& error) {
        ++refused;
        CHECK_MESSAGE(error.status() != Status::kInternal, error.message());
        if (mutant.blatant && error.status() == Status::kInvalidModel)
          CHECK_MESSAGE(error.message().find(mutant.attribute) != std::string::npos,
                        error.message());
      }
    });
  MESSAGE(ran << " mutants, " << refused << " refused");
  CHECK(refused > ran / 4);
  CHECK(refused < ran);
}

}  // namespace xc::test
