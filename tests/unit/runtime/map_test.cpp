// Maps through whole sessions. Expected values are those of onnxruntime 1.31.
#include <doctest/doctest.h>

#include <limits>

#include "ops/containers.h"
#include "runtime/session.h"
#include "support/sessions.h"

using namespace xc;
using namespace xc::testing;

namespace {

std::shared_ptr<Session> session_of(const std::string& text) {
  Config config;
  config.set_jit(JitMode::kOff);
  config.poison_arena = 1;
  return testing::session_of(text, config);
}

Tensor run_one(const std::string& graph, const Tensor& input) {
  return run(*session_of(graph), {input})[0];
}

std::string cast_map(const char* value, const char* attrs) {
  return fmt::format(
      "graph g(%m: map(i64, {}[])) -> (%y) {{ %y = ai.onnx.ml::CastMap(%m) {{{}}} }}", value,
      attrs);
}
std::string dictionary(const char* key, const char* value, const char* attrs) {
  return fmt::format(
      "graph g(%m: map({}, {}[])) -> (%y) {{ %y = ai.onnx.ml::DictVectorizer(%m) {{{}}} }}", key,
      value, attrs);
}
std::string zip_map(const char* dims, const char* attrs) {
  return fmt::format("graph g(%x: f32[{}]) -> (%y) {{ %y = ai.onnx.ml::ZipMap(%x) {{{}}} }}", dims,
                     attrs);
}

std::vector<std::string> strings(const Tensor& t) {
  const Tensor dense = t.to_contiguous();
  return {dense.as<std::string>(), dense.as<std::string>() + dense.count()};
}

Error error_of(const std::string& graph, const Tensor& input) {
  try {
    run_one(graph, input);
  } catch (const Error& error) {
    return error;
  }
  return Error(Status::kOk, "");
}

const Tensor kKeys = Tensor::of<int64_t>({5, 1, 9});
const Tensor kMap = make_map({kKeys, Tensor::of<float>({1.5f, 2.75f, -3.5f})});

}  // namespace

TEST_CASE("runtime/map: ZipMap makes a map of every row, its keys ascending") {
  const Tensor x = Tensor::of<float>({0, 1, 2, 3, 4, 5}, {2, 3});
  const Tensor y = run_one(zip_map("n, 3", "classlabels_int64s=[5, 1, 3]"), x);
  const auto maps = elements_of(y);
  REQUIRE(maps.size() == 2);
  CHECK(map_of(maps[0]).keys.to_int64s() == std::vector<int64_t>{1, 3, 5});
  CHECK(map_of(maps[0]).values.to_doubles() == std::vector<double>{1, 2, 0});
  CHECK(map_of(maps[1]).values.to_doubles() == std::vector<double>{4, 5, 3});
  CHECK(elements_of(
            run_one(zip_map("n, 3", "classlabels_int64s=[5, 1, 3]"), Tensor(DType::kF32, {0, 3})))
            .empty());

  const std::string named = zip_map("3", R"(classlabels_strings=["b", "a", "c"])");
  const Tensor one = run_one(named, Tensor::of<float>({0, 1, 2}));
  REQUIRE(elements_of(one).size() == 1);
  CHECK(strings(map_of(elements_of(one)[0]).keys) == std::vector<std::string>{"a", "b", "c"});
  CHECK(map_of(elements_of(one)[0]).values.to_doubles() == std::vector<double>{1, 0, 2});
}

TEST_CASE("runtime/map: maps of one sequence share their keys, and no values") {
  const Tensor x = Tensor::of<float>({0, 1, 2, 3, 4, 5}, {2, 3});
  const std::string twice = R"(graph g(%x: f32[n, 3]) -> (%a, %b) {
  %a = ai.onnx.ml::ZipMap(%x) {classlabels_int64s=[1, 3, 5]}
  %b = Identity(%a)
})";
  const auto session = session_of(twice);
  std::vector<xc_tensor*> slots(2, nullptr);
  session->run(std::vector<TensorView>{x.view()}, slots, {});
  const Tensor* const a = slots[0]->tensor.as<Tensor>();
  const Tensor* const b = slots[1]->tensor.as<Tensor>();
  const std::vector<Map> maps{map_of(a[0]), map_of(a[1]), map_of(b[0]), map_of(b[1])};
  for (size_t i = 0; i < maps.size(); ++i) {
    CHECK(maps[i].keys.data() == maps[0].keys.data());
    CHECK(maps[i].values.to_doubles() ==
          (i % 2 == 0 ? std::vector<double>{0, 1, 2} : std::vector<double>{3, 4, 5}));
    for (size_t k = 0; k < i; ++k) CHECK(maps[i].values.data() != maps[k].values.data());
  }
  for (xc_tensor* slot : slots) slot->release();
}

TEST_CASE("runtime/map: CastMap orders values by key, or places them by key") {
  CHECK(run_one(cast_map("f32", ""), kMap).to_doubles() == std::vector<double>{2.75, 1.5, -3.5});
  CHECK(run_one(cast_map("f32", R"(cast_to="TO_INT64")"), kMap).to_int64s() ==
        std::vector<int64_t>{2, 1, -3});
  CHECK(strings(run_one(cast_map("f32", R"(cast_to="TO_STRING")"), kMap)) ==
        std::vector<std::string>{"2.750000", "1.500000", "-3.500000"});
  const Tensor sparse = run_one(cast_map("f32", R"(map_form="SPARSE", max_map=10)"), kMap);
  CHECK(sparse.dims() == Dims{1, 10});
  CHECK(sparse.to_doubles() == std::vector<double>{0, 2.75, 0, 0, 0, 1.5, 0, 0, 0, -3.5});

  const Tensor words =
      make_map({Tensor::of<int64_t>({2, 0}), Tensor::of(std::vector<std::string>{"15", "-7"})});
  CHECK(run_one(cast_map("string", R"(cast_to="TO_INT64")"), words).to_int64s() ==
        std::vector<int64_t>{-7, 15});
  CHECK(run_one(cast_map("string", ""), words).to_doubles() == std::vector<double>{-7, 15});
  const Tensor none = make_map({Tensor(DType::kI64, {0}), Tensor(DType::kF32, {0})});
  CHECK(run_one(cast_map("f32", ""), none).dims() == Dims{1, 0});
  const Tensor huge =
      make_map({Tensor::of<int64_t>({0, 1, 2}), Tensor::of<float>({1e30f, -INFINITY, NAN})});
  CHECK(run_one(cast_map("f32", R"(cast_to="TO_INT64")"), huge).to_int64s()[0] ==
        std::numeric_limits<int64_t>::max());
}

TEST_CASE("runtime/map: DictVectorizer looks the vocabulary up, what is missing is 0") {
  const Tensor words = Tensor::of(std::vector<std::string>{"c", "a", "zz"});
  const char* vocabulary = R"(string_vocabulary=["a", "c", "b", "z"])";
  CHECK(run_one(dictionary("string", "f32", vocabulary),
                make_map({words, Tensor::of<float>({8, 4, 1})}))
            .to_doubles() == std::vector<double>{4, 8, 0, 0});
  CHECK(run_one(dictionary("string", "i64", vocabulary),
                make_map({words, Tensor::of<int64_t>({8, 4, 1})}))
            .to_int64s() == std::vector<int64_t>{4, 8, 0, 0});
  const Tensor texts =
      make_map({Tensor::of<int64_t>({3, 7}), Tensor::of(std::vector<std::string>{"x", "y"})});
  CHECK(strings(run_one(dictionary("i64", "string", "int64_vocabulary=[7, 1, 3]"), texts)) ==
        std::vector<std::string>{"y", "", "x"});
  CHECK(run_one(dictionary("i64", "f64", "int64_vocabulary=[7, 1, 3]"),
                make_map({Tensor::of<int64_t>({3}), Tensor::of<double>({0.1})}))
            .to_doubles() == std::vector<double>{0, 0, 0.1});
}

TEST_CASE("runtime/map: what is no map of the declared type is refused") {
  const std::string graph = cast_map("f32", "");
  const std::vector<Tensor> wrong{
      Tensor::of<float>({1, 2}),
      Tensor(),
      make_sequence({kKeys}),
      make_sequence({kKeys, Tensor::of<float>({1, 2})}),
      make_map({kKeys, Tensor::of<double>({1, 2, 3})}),
      make_map({Tensor::of<float>({1, 2, 3}), Tensor::of<float>({1, 2, 3})}),
      make_sequence({Tensor(), Tensor()}),
      make_map({Tensor::of<int64_t>({1, 2}, {2, 1}), Tensor::of<float>({1, 2}, {2, 1})})};
  for (const Tensor& input : wrong)
    CHECK(error_of(graph, input).status() == Status::kInvalidArgument);
  const Tensor twice = make_map({Tensor::of<int64_t>({4, 4}), Tensor::of<float>({1, 2})});
  CHECK(error_of(graph, twice).status() == Status::kRange);
}

TEST_CASE("runtime/map: wrong attributes and values are named") {
  const auto refused = [](const std::string& graph, const Tensor& input, Status status,
                          const char* text) {
    CAPTURE(graph);
    const Error error = error_of(graph, input);
    CHECK(error.status() == status);
    CHECK(error.message().find(text) != std::string::npos);
  };
  const Tensor x(DType::kF32, {2, 3});
  refused(zip_map("n, 3", ""), x, Status::kInvalidModel, "classlabels_int64s");
  refused(zip_map("n, 3", "classlabels_int64s=[1, 2]"), x, Status::kInvalidModel, "2 keys");
  refused(zip_map("n, k", "classlabels_int64s=[1, 2]"), x, Status::kRange, "2 keys for 3");
  refused(zip_map("n, 3", "classlabels_int64s=[1, 2, 1]"), x, Status::kInvalidModel, "key 1");
  refused(cast_map("f32", R"(cast_to="TO_F64")"), kMap, Status::kInvalidModel, "cast_to");
  refused(cast_map("f32", R"(map_form="SPARSE", max_map=-1)"), kMap, Status::kInvalidModel,
          "max_map");
  refused(cast_map("f32", R"(map_form="SPARSE", max_map=9)"), kMap, Status::kRange, "key 9");
  const Tensor text =
      make_map({Tensor::of<int64_t>({0}), Tensor::of(std::vector<std::string>{"12x"})});
  refused(cast_map("string", ""), text, Status::kRange, "12x");
  refused(dictionary("i64", "f32", "string_vocabulary=[\"a\"]"), kMap, Status::kInvalidModel,
          "vocabulary");
}
