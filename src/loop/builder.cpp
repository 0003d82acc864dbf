#include "loop/builder.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "loop/text.h"
#include "loop/typing.h"
#include "loop/verify.h"

namespace xc::loop {

namespace {

Expr leaf(Op op, DType type, uint32_t id) {
  Node node{.op = op, .type = type};
  node.id = id;
  return Expr(std::make_shared<const Node>(std::move(node)));
}

}  // namespace

Element::Element(uint32_t buffer, DType type, std::vector<Index> indices)
    : buffer_(buffer), type_(type), indices_(std::move(indices)) {}

Element::operator Expr() const {
  return guarded({});
}

Expr Element::guarded(Expr condition) const {
  Node node{.op = Op::kLoad, .type = value_type(type_)};
  node.id = buffer_;
  node.indices = indices_;
  node.guard = std::move(condition);
  if (std::string problem = type_problem(node); !problem.empty())
    fail(Status::kInvalidArgument, "loop expression: {}", problem);
  return Expr(std::make_shared<const Node>(std::move(node)));
}

Element Buffer::at(std::vector<Index> indices) const {
  if (indices.size() != rank_)
    fail(Status::kInvalidArgument, "loop builder: {} indices for a buffer of rank {}",
         indices.size(), rank_);
  return Element(id_, type_, std::move(indices));
}

Expr Acc::value() const {
  return leaf(Op::kAccValue, type_, id_);
}
Expr Acc::index() const {
  return leaf(Op::kAccIndex, DType::kI64, id_);
}

KernelBuilder::KernelBuilder(std::string_view name) {
  kernel_.name = unique(name);
  open_ = {&kernel_.body};
}

std::string KernelBuilder::unique(std::string_view name) {
  std::string base;
  for (const char c : name) base += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (base.empty() || std::isdigit(static_cast<unsigned char>(base[0]))) base.insert(0, "v");
  if (is_reserved_name(base)) base += '_';
  std::string out = base;
  for (int n = 1; std::find(names_.begin(), names_.end(), out) != names_.end(); ++n)
    out = base + "_" + std::to_string(n);
  names_.push_back(out);
  return out;
}

DimParam KernelBuilder::dim(std::string_view name) {
  kernel_.dims.push_back(unique(name));
  return DimParam{static_cast<uint32_t>(kernel_.dims.size() - 1)};
}

StrideParam KernelBuilder::stride(std::string_view name) {
  kernel_.strides.push_back(unique(name));
  return StrideParam{static_cast<uint32_t>(kernel_.strides.size() - 1)};
}

Buffer KernelBuilder::add_buffer(BufferDecl decl) {
  decl.name = unique(decl.name);
  kernel_.buffers.push_back(decl);
  return Buffer(static_cast<uint32_t>(kernel_.buffers.size() - 1), decl.type, decl.strides.size());
}

Buffer KernelBuilder::input(std::string_view name, DType type, std::vector<Stride> strides) {
  return add_buffer({std::string(name), type, Access::kIn, std::move(strides), {}});
}
Buffer KernelBuilder::output(std::string_view name, DType type, std::vector<Stride> strides) {
  return add_buffer({std::string(name), type, Access::kOut, std::move(strides), {}});
}
Buffer KernelBuilder::inout(std::string_view name, DType type, std::vector<Stride> strides) {
  return add_buffer({std::string(name), type, Access::kInOut, std::move(strides), {}});
}
Buffer KernelBuilder::scratch(std::string_view name, DType type, Expr elements,
                              std::vector<Stride> strides) {
  return add_buffer(
      {std::string(name), type, Access::kInOut, std::move(strides), std::move(elements)});
}

void KernelBuilder::loop(std::string_view var, Expr begin, Expr end, const Body& body,
                         LoopKind kind, int factor) {
  kernel_.vars.push_back(unique(var));
  const Var handle{static_cast<uint32_t>(kernel_.vars.size() - 1)};
  Block inner;
  open_.push_back(&inner);
  body(handle);
  open_.pop_back();
  open_.back()->push_back(
      {For{handle, std::move(begin), std::move(end), kind, factor, std::move(inner)}});
}
void KernelBuilder::loop(std::string_view var, int64_t begin, Expr end, const Body& body,
                         LoopKind kind, int factor) {
  loop(var, i64(begin), std::move(end), body, kind, factor);
}
void KernelBuilder::loop(std::string_view var, int64_t begin, int64_t end, const Body& body,
                         LoopKind kind, int factor) {
  loop(var, i64(begin), i64(end), body, kind, factor);
}

Expr KernelBuilder::let(std::string_view name, Expr value) {
  const auto id = static_cast<uint32_t>(kernel_.regs.size());
  const DType type = value.type();
  kernel_.regs.push_back({unique(name), type});
  open_.back()->push_back({Let{id, std::move(value)}});
  return leaf(Op::kReg, type, id);
}

void KernelBuilder::store(const Element& element, Expr value) {
  store(element, value, Expr());
}
void KernelBuilder::store(const Element& element, Expr value, Expr guard) {
  open_.back()->push_back(
      {Store{element.buffer(), element.indices(), std::move(value), std::move(guard)}});
}

Acc KernelBuilder::acc(std::string_view name, AccOp op, DType type, AccOrder order, Expr init) {
  const auto id = static_cast<uint32_t>(kernel_.accs.size());
  kernel_.accs.push_back({unique(name), type, op, order});
  open_.back()->push_back({DeclareAcc{id, std::move(init)}});
  return Acc(id, type);
}

void KernelBuilder::accumulate(const Acc& acc, Expr value) {
  accumulate(acc, value, Expr());
}
void KernelBuilder::accumulate(const Acc& acc, Expr value, Expr second) {
  open_.back()->push_back({Accumulate{acc.id(), std::move(value), std::move(second)}});
}

namespace {

// Parameters first, each group in the order it was declared.
Kernel order_buffers(Kernel kernel) {
  std::vector<uint32_t> now(kernel.buffers.size());
  std::vector<BufferDecl> ordered;
  for (const bool scratch : {false, true})
    for (uint32_t i = 0; i < kernel.buffers.size(); ++i)
      if (kernel.buffers[i].is_scratch() == scratch) {
        now[i] = static_cast<uint32_t>(ordered.size());
        ordered.push_back(kernel.buffers[i]);
      }
  kernel.buffers = std::move(ordered);
  const auto renumber_loads = [&](const Expr& e) {
    if (e->op != Op::kLoad || now[e->id] == e->id) return e;
    Node node = *e;
    node.id = now[e->id];
    return Expr(std::make_shared<const Node>(std::move(node)));
  };
  kernel.body = rewrite_exprs(kernel.body, renumber_loads);
  const std::function<void(Block&)> renumber_stores = [&](Block& block) {
    for (Stmt& stmt : block) {
      if (auto* store = std::get_if<Store>(&stmt.node)) store->buffer = now[store->buffer];
      if (auto* loop = std::get_if<For>(&stmt.node)) renumber_stores(loop->body);
    }
  };
  renumber_stores(kernel.body);
  return kernel;
}

}  // namespace

Kernel KernelBuilder::finish() {
  XC_CHECK(open_.size() == 1);
  Kernel out = order_buffers(std::move(kernel_));
  kernel_ = {};
  names_.clear();
  verify(out);
  return out;
}

}  // namespace xc::loop
