// Every operator problem over every way to execute it. A new way is one row in executors().

#include <doctest/doctest.h>

#include <set>

#include "ops/infer.h"
#include "ops/problem.h"
#include "ops/registry.h"

namespace xc::test {

namespace {

struct Executor {
  std::string_view name;
  /// The outputs, or nullopt where this executor has nothing for the problem.
  std::optional<std::vector<Tensor>> (*run)(const Problem&);
};

std::optional<std::vector<Tensor>> by_reference(const Problem& p) {
  return run_reference(p.node(), p.inputs);
}

/// Reference over inputs with padding between elements and reversed axes.
std::optional<std::vector<Tensor>> by_strided_reference(const Problem& p) {
  std::vector<Tensor> inputs;
  for (const Tensor& x : p.inputs) {
    if (!x || x.dtype() == DType::kString || x.rank() == 0) {
      inputs.push_back(x);
      continue;
    }
    // Room for twice the elements along every axis; even places count, walked backwards.
    Dims room = x.dims();
    for (int64_t& d : room) d *= 2;
    const Tensor buffer(x.dtype(), room);
    std::fill_n(static_cast<unsigned char*>(buffer.data()), buffer.byte_size(), 0x5a);
    Dims strides = buffer.strides();
    int64_t first = 0;
    for (size_t i = 0; i < strides.size(); ++i) {
      if (x.dims()[i] > 0) first += (x.dims()[i] - 1) * 2 * strides[i];
      strides[i] *= -2;
    }
    const Tensor view(buffer.buffer(), first * element_size(x.dtype()), x.dtype(), x.dims(),
                      strides);
    if (x.count() != 0) copy_elements(x.view(), view.view());
    inputs.push_back(view);
  }
  return run_reference(p.node(), inputs);
}

std::vector<Executor> executors() {
  return {{"reference", by_reference}, {"reference, strided inputs", by_strided_reference}};
}

}  // namespace

TEST_CASE("ops/suite: every problem has its expected result") {
  for (const Executor& executor : executors()) {
    int ran = 0;
    for (const Problem& p : all_problems()) {
      std::string problem;
      try {
        const auto got = executor.run(p);
        if (!got) continue;
        ++ran;
        for (size_t k = 0; problem.empty() && k < p.expected.size(); ++k)
          if (p.expected[k]) problem = difference((*got)[k], p.expected[k], p.op->tolerance);
      } catch (const Error& error) {
        problem = error.message();
      }
      CHECK_MESSAGE(problem.empty(), executor.name, ": ", p.name, " (", p.file, ":", p.line,
                    "): ", problem);
    }
    CHECK(ran > 0);
  }
}

TEST_CASE("ops/suite: a wrong result is noticed") {
  const Tensor want = Tensor::of<float>({1, 2}), got = Tensor::of<float>({1, 2.00001f});
  CHECK(!difference(got, want, Tolerance::kElementwise).empty());
  CHECK(difference(want, want, Tolerance::kExact).empty());
  CHECK(!difference(Tensor::of<float>({1, NAN}), want, Tolerance::kReduction).empty());
  CHECK(!difference(Tensor::of<int32_t>({1, 2}), want, Tolerance::kReduction).empty());
}

TEST_CASE("ops/suite: every operator with a reference has a problem") {
  // Problems of these are written elsewhere or their results are random.
  std::set<std::string_view> covered;
  for (const Problem& p : all_problems()) covered.insert(p.op->name);
  std::string missing;
  for (const OpDef* op : all_ops())
    if (op->reference && !op->random && op->domain.empty() && !covered.count(op->name))
      missing += std::string(op->name) + " ";
  MESSAGE("without a problem: ", missing);
}

}  // namespace xc::test
