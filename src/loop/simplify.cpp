#include "loop/simplify.h"

#include <bit>
#include <unordered_map>
#include <unordered_set>

#include "loop/evaluate.h"

namespace xc::loop {

namespace {

bool is_value(const Expr& e, double value) {
  if (!is_const(e)) return false;
  if (e.type() == DType::kBool) return (e->bits != 0) == (value != 0);
  // Bits, so that 0 and -0 differ.
  return e->bits == constant(e.type(), value)->bits;
}

bool all_constant(const Node& node) {
  if (node.args.empty() || is_math(node.op)) return false;
  for (const Expr& arg : node.args)
    if (!is_const(arg)) return false;
  return true;
}

Expr fold(const Expr& e) {
  std::vector<uint64_t> values;
  for (const Expr& arg : e->args) values.push_back(arg->bits);
  const DType operand = e->args[e->op == Op::kSelect ? 1 : 0].type();
  return constant_bits(e.type(), evaluate_op(e->op, e.type(), operand, values));
}

// One step at the root; the children are simplified already.
Expr local(const Expr& e) {
  const Node& node = *e;
  if (all_constant(node)) return fold(e);
  const auto a = [&]() -> const Expr& { return node.args[0]; };
  const auto b = [&]() -> const Expr& { return node.args[1]; };
  const bool integer = is_integer(node.type);
  switch (node.op) {
    case Op::kAdd:
      if (is_value(b(), integer ? 0.0 : -0.0)) return a();
      if (is_value(a(), integer ? 0.0 : -0.0)) return b();
      break;
    case Op::kSub:
      if (is_value(b(), 0.0)) return a();
      break;
    case Op::kMul:
      if (is_value(b(), 1)) return a();
      if (is_value(a(), 1)) return b();
      if (integer && is_value(a(), 0)) return a();
      if (integer && is_value(b(), 0)) return b();
      break;
    case Op::kDiv:
      if (is_value(b(), 1)) return a();
      break;
    case Op::kShl:
    case Op::kShr:
      if (is_value(b(), 0)) return a();
      break;
    case Op::kNeg:
    case Op::kNot:
      if (a()->op == node.op) return a()->args[0];
      break;
    case Op::kAnd:
      if (node.type == DType::kBool && is_const(a())) return a()->bits != 0 ? b() : a();
      if (node.type == DType::kBool && is_const(b())) return b()->bits != 0 ? a() : b();
      break;
    case Op::kOr:
      if (node.type == DType::kBool && is_const(a())) return a()->bits != 0 ? a() : b();
      if (node.type == DType::kBool && is_const(b())) return b()->bits != 0 ? b() : a();
      break;
    case Op::kSelect:
      if (is_const(a())) return a()->bits != 0 ? b() : node.args[2];
      if (b().get() == node.args[2].get()) return b();
      break;
    case Op::kLoad:
      if (node.guard && is_const(node.guard)) {
        if (node.guard->bits == 0) return constant(node.type, 0);
        Node unguarded = node;
        unguarded.guard = {};
        return Expr(std::make_shared<const Node>(std::move(unguarded)));
      }
      break;
    default:
      break;
  }
  return e;
}

// Hands out one node for all structurally equal ones.
class Interner {
 public:
  Expr operator()(const Expr& e) {
    auto& bucket = nodes_[hash(*e)];
    for (const Expr& known : bucket)
      if (equal(*known, *e)) return known;
    bucket.push_back(e);
    return e;
  }

 private:
  static uint64_t mix(uint64_t h, uint64_t v) { return std::rotl(h ^ v, 27) * 0x9e3779b97f4a7c15u; }
  static uint64_t mix(uint64_t h, const void* p) { return mix(h, std::bit_cast<uint64_t>(p)); }
  static uint64_t hash(const Node& node) {
    uint64_t h =
        mix(mix(static_cast<uint64_t>(node.op) << 8 | static_cast<uint64_t>(node.type), node.id),
            node.bits);
    for (const Expr& arg : node.args) h = mix(h, arg.get());
    for (const Index& index : node.indices) {
      h = mix(mix(h, index.checked.get()), index.extent.get());
      h = mix(h, static_cast<uint64_t>(index.affine.constant()));
    }
    return mix(h, node.guard.get());
  }
  // Children were interned before, so pointers decide.
  static bool equal(const Node& x, const Node& y) {
    if (x.op != y.op || x.type != y.type || x.id != y.id || x.bits != y.bits ||
        x.args.size() != y.args.size() || x.indices.size() != y.indices.size() ||
        x.guard.get() != y.guard.get())
      return false;
    for (size_t i = 0; i < x.args.size(); ++i)
      if (x.args[i].get() != y.args[i].get()) return false;
    for (size_t i = 0; i < x.indices.size(); ++i)
      if (!(x.indices[i].affine == y.indices[i].affine) ||
          x.indices[i].checked.get() != y.indices[i].checked.get() ||
          x.indices[i].extent.get() != y.indices[i].extent.get())
        return false;
    return true;
  }
  std::unordered_map<uint64_t, std::vector<Expr>> nodes_;
};

bool may_fail(const Expr& root) {
  bool found = false;
  visit_nodes(root, [&](const Expr& e) {
    for (const Index& index : e->indices) found |= !index.is_affine();
  });
  return found;
}

bool is_empty(const For& loop) {
  return is_const(loop.begin) && is_const(loop.end) &&
         const_as_int(*loop.begin) >= const_as_int(*loop.end) && loop.kind != LoopKind::kParallel;
}

Block without_dead(const Block& block, const std::unordered_set<uint32_t>& used, bool& changed) {
  Block out;
  for (const Stmt& stmt : block) {
    if (const auto* let = std::get_if<Let>(&stmt.node);
        let && !used.contains(let->reg) && !may_fail(let->value)) {
      changed = true;
      continue;
    }
    out.push_back(stmt);
    if (auto* loop = std::get_if<For>(&out.back().node)) {
      if (is_empty(*loop)) {
        out.pop_back();
        changed = true;
        continue;
      }
      loop->body = without_dead(loop->body, used, changed);
    }
  }
  return out;
}

}  // namespace

Expr simplify(const Expr& e) {
  return rewrite_expr(e, local);
}

Kernel simplify(Kernel kernel) {
  Interner intern;
  kernel.body = rewrite_exprs(kernel.body, [&](const Expr& e) { return intern(local(e)); });
  for (bool changed = true; changed;) {
    changed = false;
    std::unordered_set<uint32_t> used;
    visit_statements(kernel.body, [&](const Stmt& stmt) {
      visit_exprs(stmt, [&](const Expr& root) {
        visit_nodes(root, [&](const Expr& e) {
          if (e->op == Op::kReg) used.insert(e->id);
        });
      });
    });
    kernel.body = without_dead(kernel.body, used, changed);
  }
  return kernel;
}

}  // namespace xc::loop
