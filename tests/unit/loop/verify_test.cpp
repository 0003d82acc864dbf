#include "loop/verify.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "loop/builder.h"
#include "loop/text.h"
#include "support/loop_kernels.h"

using namespace xc;
using namespace xc::loop;

namespace {

// The message without the kernel's name.
std::string problem(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    const std::string& message = error.message();
    const size_t at = message.find("rule ");
    return at == std::string::npos ? message : message.substr(at);
  }
  return "";
}
std::string problem(std::string_view body, Level level = Level::kBuilt) {
  const std::string head = "kernel k(n, m; s) { in x: f32[s, 1] out y: f32[1] inout z: f32[1] ";
  return problem([&] { verify(parse(head + std::string(body) + "}"), level); });
}
std::string problem(const Kernel& kernel) {
  return problem([&] { verify(kernel); });
}

Store& first_store(Kernel& kernel) {
  Block* block = &kernel.body;
  for (;;) {
    if (Store* store = std::get_if<Store>(&block->front().node)) return *store;
    block = &std::get<For>(block->front().node).body;
  }
}

}  // namespace

TEST_CASE("loop/verify: sound kernels pass") {
  CHECK(problem("for i = 0 .. n { y[i] = x[i, 0] }") == "");
  CHECK(problem("vector(16) i = 0 .. n { z[2*i] = z[2*i] z[2*i + 1] = x[i, i] }") == "");
}

TEST_CASE("loop/verify: rule types") {
  CHECK(problem("for i = 0 .. n { y[i] = 1 }") == "rule types: the value stored to y");
  CHECK(problem("acc a: f32 sum lanes = 1 for i = 0 .. n { a <- x[i, 0] }") ==
        "rule types: the initial value of a");
  CHECK(problem("acc a: bool sum lanes") == "rule types: accumulator a of bool");
  CHECK(problem("acc a: f32 sum lanes for i = 0 .. n { a <- i }") ==
        "rule types: the value accumulated into a");
  CHECK(problem("y[0] = 1:f32 if n") == "rule types: the guard of a store to y");
  CHECK(problem("let r: f64 = 1:f32") == "rule types: the value of register r");
  Kernel kernel = test::flat_relu();
  first_store(kernel).value = make_node(Op::kAdd, DType::kF32, {f32(1), i64(2)});
  CHECK(problem(kernel) == "rule types: add of f32 and i64: operands have one type");
}

TEST_CASE("loop/verify: rule names") {
  CHECK(problem("for i = 0 .. n { } for i = 0 .. n { }") == "rule names: 'i' is declared twice");
  Kernel kernel = test::flat_relu();
  kernel.buffers[0].name = "a b";
  CHECK(problem(kernel) == "rule names: 'a b' is not a name");
  kernel.buffers[0].name = "parallel";
  CHECK(problem(kernel) == "rule names: 'parallel' is not a name");
}

TEST_CASE("loop/verify: rule handles") {
  Kernel kernel = test::flat_relu();
  first_store(kernel).buffer = 9;
  CHECK(problem(kernel) == "rule handles: buffer 9");
  kernel = test::flat_relu();
  first_store(kernel).indices = {Affine(DimParam{7})};
  CHECK(problem(kernel) == "rule handles: dim 7");
  kernel = test::norm_chain();
  std::swap(kernel.buffers.front(), kernel.buffers.back());
  CHECK(problem(kernel) == "rule handles: parameter r follows a scratch row");
  kernel = test::flat_relu();
  kernel.buffers[0].strides = {StrideParam{3}};
  CHECK(problem(kernel) == "rule handles: buffer x uses stride parameter 3");
}

TEST_CASE("loop/verify: rule scope") {
  CHECK(problem("for i = 0 .. n { } y[i] = 1:f32") ==
        "rule scope: loop variable i is not visible here");
  CHECK(problem("for i = 0 .. n { let r: f32 = 1:f32 } y[0] = r") ==
        "rule scope: register r is not visible here");
  CHECK(problem("for i = 0 .. n { acc a: f32 sum lanes } y[0] = a") ==
        "rule scope: accumulator a is not visible here");
  Kernel kernel = test::flat_relu();
  kernel.body.push_back(kernel.body[0]);
  CHECK(problem(kernel) == "rule scope: i belongs to two loops");
}

TEST_CASE("loop/verify: rules rank, bounds and access") {
  CHECK(problem("y[0, 0] = 1:f32") == "rule rank: y has 1 dimensions, 2 indices given");
  CHECK(problem("for i = 0 .. cast<i64>(x[0, 0]) { }") ==
        "rule bounds: load in the bound cast<i64>(x[0, 0])");
  CHECK(problem("for i = 0 .. n { x[i, 0] = 1:f32 }") == "rule access: x is not an output");
  CHECK(problem("for i = 0 .. n { z[i] = y[i] }") ==
        "rule access: y is loaded before it is stored");
}

TEST_CASE("loop/verify: rule parallel") {
  CHECK(problem("for i = 0 .. n { parallel j = 0 .. m { } }") ==
        "rule parallel: j is not the outermost loop");
  CHECK(problem("parallel i = 0 .. n { } y[0] = 1:f32") ==
        "rule parallel: the parallel loop is the only statement beside registers");
}

TEST_CASE("loop/verify: rule acc") {
  CHECK(problem("acc a: f32 sum lanes a <- 1:f32") ==
        "rule acc: a is accumulated outside of any loop");
  CHECK(problem("acc a: f32 sum lanes for i = 0 .. n { a <- 1:f32 } y[0] = a "
                "for j = 0 .. n { a <- 1:f32 }") == "rule acc: a is accumulated after it was read");
  CHECK(problem("acc a: f32 sum lanes for i = 0 .. n { a <- 1:f32 y[i] = a }") ==
        "rule acc: a is read inside a loop that accumulates it");
  CHECK(problem("acc a: f32 argmax lanes for i = 0 .. n { a <- 1:f32 }") ==
        "rule acc: a: an i64 index goes with an arg-reduction");
  CHECK(problem("acc a: f32 sum lanes for i = 0 .. n { a <- 1:f32 } z[a.index] = 1:f32") != "");
}

TEST_CASE("loop/verify: rule vector") {
  CHECK(problem("vector(5) i = 0 .. n { }") == "rule vector: 5 lanes in loop i");
  CHECK(problem("vector(16) i = 0 .. n { z[i] = z[i + 1] }") ==
        "rule vector: iterations of i may meet in elements of z");
  CHECK(problem("vector(16) i = 0 .. n { y[0] = 1:f32 }") ==
        "rule vector: iterations of i may meet in elements of y");
  CHECK(problem("vector(16) i = 0 .. n { vector(16) j = 0 .. m { } }") ==
        "rule vector: loop j inside vector loop i");
  CHECK(problem("vector(16) i = 0 .. n { for j = 0 .. i { } }") ==
        "rule vector: the bounds of j depend on vector variable i");
  CHECK(problem("acc a: f32 sum seq vector(16) i = 0 .. n { a <- 1:f32 }") ==
        "rule vector: accumulator a carries a value between iterations of i");
}

TEST_CASE("loop/verify: rule lanes, after scheduling") {
  const char* const serial = "acc a: f32 sum lanes for i = 0 .. n { a <- 1:f32 } y[0] = a";
  CHECK(problem(serial) == "");
  CHECK(problem(serial, Level::kScheduled) ==
        "rule lanes: a is accumulated outside of a vector(16) loop");
  CHECK(problem("vector(16) j = 0 .. m { acc a: f32 sum lanes for i = 0 .. n { a <- 1:f32 } }",
                Level::kScheduled) == "rule lanes: a is declared inside a vector loop");
}

TEST_CASE("loop/verify: rule limits") {
  CHECK(problem("unroll(65) i = 0 .. n { }") == "rule limits: factor 65 of loop i");
  KernelBuilder b("wide");
  for (int i = 0; i < 65; ++i) b.input("x", DType::kF32, {1});
  CHECK(problem([&] { (void)b.finish(); }) == "rule limits: 65 buffers, at most 64");
  KernelBuilder deep("deep");
  const Buffer y = deep.output("y", DType::kF32, {1});
  Expr chain = f32(1);
  for (int i = 0; i < 2100; ++i) chain = chain + 1.0;
  deep.store(y(0), chain);
  CHECK(problem([&] { (void)deep.finish(); }) == "rule limits: expression deeper than 2000");
}
