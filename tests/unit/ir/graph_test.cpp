#include "ir/graph.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "ir/patch.h"
#include "ir/place.h"
#include "ir/verify.h"
#include "ops/op.h"

using namespace xc;

namespace {

const OpDef kUnary{.name = "TestUnary"};
const OpDef kBinary{.name = "TestBinary", .min_inputs = 2, .max_inputs = 2};

Type vec() {
  return Type::tensor(DType::kF32, SymDims{Dim::symbol("n")});
}

Status status_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.status();
  }
  return Status::kOk;
}

ValueId unary(Graph& g, ValueId x, std::string name = {}) {
  return g.node(g.add_node(kUnary, {x}, 1, {}, std::move(name))).outputs[0];
}

}  // namespace

TEST_CASE("ir/graph: types print as the text form writes them") {
  CHECK(Type::tensor(DType::kF32, SymDims{Dim::symbol("n"), 3072}).text() == "f32[n, 3072]");
  CHECK(Type::tensor(DType::kI64).text() == "i64[*]");
  CHECK(Type{}.text() == "?[*]");
  Type seq{Type::Kind::kSequence, DType::kUndefined, {}, std::make_shared<Type>(vec())};
  CHECK(seq.text() == "seq(f32[n])");
  CHECK(seq == Type{Type::Kind::kSequence, DType::kUndefined, {}, std::make_shared<Type>(vec())});
  CHECK(!(seq == vec()));
}

TEST_CASE("ir/graph: a value has one definition and one name") {
  Graph g;
  const ValueId x = g.add_input("x", vec());
  CHECK(status_of([&] { g.add_value("x"); }) == Status::kInvalidModel);
  Node node{.op = &kUnary, .inputs = {x}, .outputs = {x}};
  CHECK(status_of([&] { g.add_node(node); }) == Status::kInvalidModel);
  CHECK(g.fresh_name("x") == "x.1");
  CHECK(g.find_value("x") == x);
  g.rename(x, "input");
  CHECK(!g.find_value("x"));
  CHECK(g.find_value("input") == x);
}

TEST_CASE("ir/graph: sorting moves only what must come earlier, and names a cycle") {
  Graph g;
  const ValueId x = g.add_input("x", vec());
  const ValueId late = g.add_value("late");
  const NodeId first = g.add_node(kUnary, {late}, 1, {}, "first");
  const NodeId second = g.add_node(kUnary, {x}, 1, {}, "second");
  const NodeId third =
      g.add_node(Node{.op = &kUnary, .name = "third", .inputs = {x}, .outputs = {late}});
  CHECK(status_of([&] { verify(g); }) == Status::kInvalidModel);
  g.sort();
  CHECK(g.order() == std::vector<NodeId>{third, first, second});
  g.node(third).inputs[0] = g.node(first).outputs[0];
  CHECK(status_of([&] { g.sort(); }) == Status::kInvalidModel);
}

TEST_CASE("ir/place: a node without a name is known by that of its first output") {
  Graph g;
  const ValueId x = g.add_input("x", vec()), y = g.add_value("y"), z = g.add_value("z");
  const Node& plain = g.node(g.add_node(Node{.op = &kUnary, .inputs = {x}, .outputs = {y}}));
  CHECK(node_place(g, plain) == "node 'y' (TestUnary)");
  CHECK(node_place(plain).empty());
  const Node& partly =
      g.node(g.add_node(Node{.op = &kUnary, .inputs = {x}, .outputs = {kNone, z}}));
  CHECK(node_place(g, partly) == "node 'z' (TestUnary)");
  const Node& named =
      g.node(g.add_node(Node{.op = &kUnary, .name = "fc\n1", .inputs = {x}, .outputs = {kNone}}));
  CHECK(node_place(g, named) == "node 'fc\\x0a1' (TestUnary)");
  CHECK(node_place(named) == node_place(g, named));
}

TEST_CASE("ir/graph: a chain of 100000 nodes sorts, verifies and patches without recursion") {
  Graph g;
  ValueId v = g.add_input("x", vec());
  for (int i = 0; i < 100000; ++i) v = unary(g, v);
  g.outputs = {v};
  std::vector<NodeId> reversed(g.order().rbegin(), g.order().rend());
  g.set_order(reversed);
  g.sort();
  CHECK(g.order().front() == 0);
  verify(g);
  Patch patch(g, "test");
  for (NodeId id = 0; id < 100000; id += 2) {
    patch.replace(g.node(id).outputs[0], g.node(id).inputs[0]);
    patch.remove(id);
  }
  patch.apply();
  verify(g);
  CHECK(g.order().size() == 50000);
}

TEST_CASE("ir/graph: which values are outputs follows every change of them") {
  Graph g;
  const ValueId x = g.add_input("x", vec());
  const ValueId a = unary(g, x), b = unary(g, x), c = unary(g, x);
  CHECK(!g.is_output(a));
  g.outputs = {a, a};
  g.outputs.push_back(b);
  CHECK(g.is_output(a));
  CHECK(g.is_output(b));
  CHECK(!g.is_output(c));
  CHECK(g.clone().is_output(b));
  {
    Patch patch(g, "test");
    patch.replace(a, c);
    patch.apply();
  }
  CHECK(!g.is_output(a));
  CHECK(g.is_output(c));
  CHECK(std::vector<ValueId>(g.outputs) == std::vector<ValueId>{c, c, b});
  g.outputs = {b};
  CHECK(!g.is_output(c));
  g.outputs.clear();
  CHECK(g.outputs.empty());
  CHECK(!g.is_output(b));
}

TEST_CASE("ir/graph: asking for each of 200,000 outputs takes no quadratic time") {
  Graph g;
  const ValueId x = g.add_input("x", vec());
  for (int k = 0; k < 200'000; ++k) g.outputs.push_back(x + 1 + static_cast<ValueId>(k));
  int64_t count = 0;
  for (ValueId v = 0; v < 400'000; ++v) count += g.is_output(v) ? 1 : 0;
  CHECK(count == 200'000);
}

TEST_CASE("ir/graph: a clone is independent, subgraphs included") {
  auto body = std::make_shared<Graph>();
  body->name = "body";
  const ValueId b = body->add_input("b", vec());
  body->outputs = {unary(*body, b)};
  Graph g;
  const ValueId x = g.add_input("x", vec());
  g.add_node(Node{.op = &kUnary,
                  .inputs = {x},
                  .outputs = {g.add_value("y")},
                  .subgraphs = {body},
                  .capture_count = 1});
  g.outputs = {*g.find_value("y")};
  verify(g);
  Graph copy = g.clone();
  unary(*copy.node(0).subgraphs[0], 0);
  CHECK(body->order().size() == 1);
  CHECK(copy.node(0).subgraphs[0]->order().size() == 2);
}

TEST_CASE("ir/verify: broken graphs are refused with the place") {
  Graph g;
  const ValueId x = g.add_input("x", vec());
  const ValueId y = unary(g, x, "n");
  g.outputs = {y};
  verify(g);
  SUBCASE("undefined output") {
    g.outputs.push_back(g.add_value("u"));
  }
  SUBCASE("value that does not exist") {
    g.node(0).inputs[0] = 77;
  }
  SUBCASE("undefined input") {
    g.node(0).inputs[0] = g.add_value("u");
  }
  SUBCASE("node out of order") {
    g.set_order({});
  }
  SUBCASE("node twice in order") {
    g.set_order({0, 0});
  }
  SUBCASE("too many captures") {
    g.node(0).capture_count = 2;
  }
  SUBCASE("missing subgraph") {
    g.node(0).subgraphs.push_back(nullptr);
  }
  SUBCASE("wrong producer") {
    g.node(0).outputs[0] = x;
  }
  SUBCASE("input list") {
    g.inputs.push_back(y);
  }
  SUBCASE("constant of another type") {
    const ValueId c = g.add_constant("c", Tensor::scalar(1.0f));
    g.value(c).type = vec();
  }
  SUBCASE("a body shared by two nodes") {
    auto body = std::make_shared<Graph>();
    g.node(0).subgraphs = {body, body};
  }
  SUBCASE("nesting") {
    auto body = std::make_shared<Graph>();
    for (int i = 0; i < 20; ++i) {
      auto outer = std::make_shared<Graph>();
      Node node{.op = &kUnary};
      node.subgraphs = {body};
      outer->add_node(node);
      body = outer;
    }
    g.node(0).subgraphs = {body};
  }
  CHECK(status_of([&] { verify(g); }) == Status::kInvalidModel);
}

TEST_CASE("ir/patch: replacing a wire keeps other users") {
  Graph g;
  const ValueId x = g.add_input("x", vec());
  const ValueId a = unary(g, x, "a");
  const ValueId b = unary(g, a, "b");
  const ValueId c = unary(g, x, "c");
  g.outputs = {b, c};
  Patch patch(g, "rule:test");
  const ValueId z = patch.add_node(kBinary, {x, x}, 1)[0];
  patch.replace(a, z);
  patch.remove(g.value(a).producer);
  patch.apply();
  verify(g);
  CHECK(g.node(g.value(b).producer).inputs[0] == z);
  CHECK(g.node(g.value(c).producer).inputs[0] == x);
  CHECK(g.node(g.value(z).producer).made_by == "rule:test");
  // The new node stands right before its first user.
  CHECK(g.order().front() == g.value(z).producer);
}

TEST_CASE("ir/patch: a superseded node reads what stands for its values") {
  Graph g;
  const ValueId x = g.add_input("x", vec());
  const ValueId a = unary(g, x, "a"), b = unary(g, a, "b");
  g.outputs = {b};
  const NodeId node = g.value(b).producer;
  const auto replace = [&](ValueId old, bool superseded) {
    Patch patch(g, "test");
    const ValueId now = patch.add_node(kUnary, {x}, 1)[0];
    patch.replace(old, now);
    if (superseded)
      patch.supersede(g.value(old).producer);
    else
      patch.remove(g.value(old).producer);
    patch.apply();
    verify(g);
    return now;
  };
  const ValueId c = replace(b, true);
  CHECK(g.superseded() == std::vector<NodeId>{node});
  CHECK(!g.node(node).alive);
  CHECK(g.node(node).outputs[0] == c);
  const ValueId d = replace(a, false);
  CHECK(g.node(node).inputs[0] == d);
  CHECK(g.clone().superseded() == g.superseded());
  {
    Patch forgotten(g, "test");
    forgotten.supersede(g.value(c).producer);
  }
  CHECK(g.superseded() == std::vector<NodeId>{node});
}

TEST_CASE("ir/patch: the replacement of a graph output takes its name over") {
  Graph g;
  const ValueId x = g.add_input("x", vec());
  const ValueId y = unary(g, x, "y");
  g.outputs = {y, y};
  Patch patch(g, "test");
  const ValueId z = patch.add_node(kUnary, {x}, 1, {}, "z")[0];
  CHECK(patch.can_replace(y, z));
  patch.replace(y, z);
  patch.apply();
  verify(g);
  CHECK(std::vector<ValueId>(g.outputs) == std::vector<ValueId>{z, z});
  CHECK(g.value(z).name == "y");
  CHECK(g.find_value("y") == z);
}

TEST_CASE("ir/patch: outputs do not lose their names to inputs or to each other") {
  Graph g;
  const ValueId x = g.add_input("x", vec());
  const ValueId y = unary(g, x), z = unary(g, x);
  g.outputs = {y, z};
  {
    Patch patch(g, "test");
    CHECK(!patch.can_replace(y, x));
    CHECK(!patch.can_replace(y, z));
    patch.replace(y, x);
    CHECK(status_of([&] { patch.apply(); }) == Status::kInternal);
  }
  Patch patch(g, "test");
  const ValueId w = patch.add_node(kUnary, {x}, 1)[0];
  patch.replace(y, w);
  CHECK(!patch.can_replace(z, w));
  patch.apply();
  verify(g);
}

TEST_CASE("ir/patch: a failed or forgotten patch leaves the graph as it was") {
  Graph g;
  const ValueId x = g.add_input("x", vec());
  const ValueId a = unary(g, x), b = unary(g, a);
  g.outputs = {b};
  const std::vector<NodeId> before = g.order();
  {
    Patch patch(g, "test");
    patch.add_node(kUnary, {x}, 1);
    patch.add_constant("c", Tensor::scalar(2.0f));
    patch.remove(g.value(a).producer);
    CHECK(status_of([&] { patch.apply(); }) == Status::kInternal);
  }
  {
    Patch patch(g, "test");  // a by something computed from b: a cycle
    patch.replace(a, patch.add_node(kUnary, {b}, 1)[0]);
    CHECK(status_of([&] { patch.apply(); }) == Status::kInternal);
  }
  {
    Patch patch(g, "test");
    patch.replace(a, b);
    patch.replace(b, a);
    CHECK(status_of([&] { patch.apply(); }) == Status::kInternal);
  }
  verify(g);
  CHECK(g.order() == before);
  CHECK(g.node(g.value(b).producer).inputs[0] == a);
}

TEST_CASE("ir/patch: chains of replacements resolve") {
  Graph g;
  const ValueId x = g.add_input("x", vec());
  ValueId v = x;
  std::vector<ValueId> values;
  for (int i = 0; i < 5; ++i) values.push_back(v = unary(g, v));
  g.outputs = {v};
  Patch patch(g, "test");
  for (size_t i = 0; i < 4; ++i) {
    patch.replace(values[i], i == 0 ? x : values[i - 1]);
    patch.remove(g.value(values[i]).producer);
  }
  patch.apply();
  verify(g);
  CHECK(g.order().size() == 1);
  CHECK(g.node(g.order()[0]).inputs[0] == x);
}
