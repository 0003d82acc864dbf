#include "loop/verify.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "loop/dependence.h"
#include "loop/text.h"
#include "loop/typing.h"
#include "loop/words.h"

namespace xc::loop {

namespace {

constexpr size_t kMaxLoopDepth = 64;
constexpr int kMaxFactor = 64;

class Verifier {
 public:
  Verifier(const Kernel& kernel, Level level) : kernel_(kernel), level_(level) {}

  void run() {
    names();
    parameters();
    top_level();
    block(kernel_.body);
  }

 private:
  template <class... Args>
  [[noreturn]] void reject(const char* rule, fmt::format_string<Args...> format, Args&&... args) {
    fail(Status::kInvalidArgument, "kernel {}: rule {}: {}", kernel_.name, rule,
         fmt::format(format, std::forward<Args>(args)...));
  }

  // --- declarations ---
  void name(const std::string& text) {
    const auto is_letter = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    };
    const bool spelled =
        !text.empty() && is_letter(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
          return is_letter(c) || (c >= '0' && c <= '9');
        });
    if (!spelled || is_reserved_name(text)) reject("names", "'{}' is not a name", text);
    if (!names_.insert(text).second) reject("names", "'{}' is declared twice", text);
  }

  void names() {
    for (const std::string& dim : kernel_.dims) name(dim);
    for (const std::string& stride : kernel_.strides) name(stride);
    for (const BufferDecl& buffer : kernel_.buffers) name(buffer.name);
    for (const std::string& var : kernel_.vars) name(var);
    for (const RegDecl& reg : kernel_.regs) name(reg.name);
    for (const AccDecl& acc : kernel_.accs) name(acc.name);
  }

  void parameters() {
    const size_t count = kernel_.param_count(), scratch = kernel_.buffers.size() - count;
    if (std::max(count, scratch) > kMaxBuffers)
      reject("limits", "{} buffers, at most {}", std::max(count, scratch), kMaxBuffers);
    bool scratch_seen = false;
    for (const BufferDecl& buffer : kernel_.buffers) {
      if (!is_value_type(value_type(buffer.type)))
        reject("types", "buffer {} has type {}", buffer.name, xc::name(buffer.type));
      if (buffer.is_scratch()) {
        scratch_seen = true;
        const bool constant = std::none_of(buffer.strides.begin(), buffer.strides.end(),
                                           [](const Stride& s) { return s.is_param; });
        if (!constant || buffer.strides.empty() || buffer.strides.back() != Stride(1))
          reject("handles", "the strides of scratch {} are not constants that end in 1",
                 buffer.name);
        expression(buffer.scratch_elements);
        bound(buffer.scratch_elements);
      } else if (scratch_seen) {
        reject("handles", "parameter {} follows a scratch row", buffer.name);
      }
      for (const Stride& stride : buffer.strides)
        if (stride.is_param && stride.param >= kernel_.strides.size())
          reject("handles", "buffer {} uses stride parameter {}", buffer.name, stride.param);
    }
  }

  void top_level() {
    size_t parallel = 0, others = 0;
    for (const Stmt& stmt : kernel_.body) {
      const For* loop = std::get_if<For>(&stmt.node);
      if (loop && loop->kind == LoopKind::kParallel)
        ++parallel;
      else if (!std::holds_alternative<Let>(stmt.node))
        ++others;
    }
    if (parallel > 1 || (parallel == 1 && others > 0))
      reject("parallel", "the parallel loop is the only statement beside registers");
  }

  // --- expressions ---
  std::string text(const Expr& e) { return print(kernel_, e); }

  void expression(const Expr& root) {
    std::unordered_map<const Node*, size_t> depth;
    visit_nodes(root, [&](const Expr& e) {
      size_t deepest = 0;
      for_each_child(*e,
                     [&](const Expr& child) { deepest = std::max(deepest, depth[child.get()]); });
      depth[e.get()] = deepest + 1;
      if (++nodes_ > kMaxNodes) reject("limits", "more than {} nodes", kMaxNodes);
      if (deepest > kMaxExprDepth) reject("limits", "expression deeper than {}", kMaxExprDepth);
      if (std::string problem = type_problem(*e); !problem.empty()) reject("types", "{}", problem);
      leaf(e);
    });
  }

  void leaf(const Expr& e) {
    switch (e->op) {
      case Op::kLoad: {
        const BufferDecl& decl = buffer(e->id);
        subscripts(decl, e->indices);
        if (e->type != value_type(decl.type))
          reject("types", "a load from {} gives {}", decl.name, xc::name(value_type(decl.type)));
        if (decl.access == Access::kOut && !stored_.contains(e->id))
          reject("access", "{} is loaded before it is stored", decl.name);
        break;
      }
      case Op::kReg:
        if (e->id >= kernel_.regs.size()) reject("handles", "register {}", e->id);
        if (!live_regs_.contains(e->id))
          reject("scope", "register {} is not visible here", kernel_.regs[e->id].name);
        if (e->type != kernel_.regs[e->id].type)
          reject("types", "register {}", kernel_.regs[e->id].name);
        break;
      case Op::kAccValue:
      case Op::kAccIndex:
        read_acc(*e);
        break;
      case Op::kLoopVar:
        visible(e->id);
        break;
      case Op::kDim:
        if (e->id >= kernel_.dims.size()) reject("handles", "dim {}", e->id);
        break;
      default:
        break;
    }
  }

  void visible(uint32_t var) {
    if (var >= kernel_.vars.size()) reject("handles", "loop variable {}", var);
    if (std::none_of(loops_.begin(), loops_.end(),
                     [&](const Open& open) { return open.loop->var.id == var; }))
      reject("scope", "loop variable {} is not visible here", kernel_.vars[var]);
  }

  const BufferDecl& buffer(uint32_t id) {
    if (id >= kernel_.buffers.size()) reject("handles", "buffer {}", id);
    return kernel_.buffers[id];
  }

  void subscripts(const BufferDecl& decl, const std::vector<Index>& indices) {
    if (indices.size() != decl.strides.size())
      reject("rank", "{} has {} dimensions, {} indices given", decl.name, decl.strides.size(),
             indices.size());
    for (const Index& index : indices)
      for (const Affine::Term& term : index.affine.terms()) {
        if (term.is_dim && term.id >= kernel_.dims.size()) reject("handles", "dim {}", term.id);
        if (!term.is_dim) visible(term.id);
      }
  }

  void bound(const Expr& root) {
    if (!root) reject("bounds", "a loop has no bound");
    visit_nodes(root, [&](const Expr& e) {
      static const std::set<Op> kAllowed = {Op::kConst, Op::kDim, Op::kLoopVar, Op::kAdd, Op::kSub,
                                            Op::kMul,   Op::kDiv, Op::kMin,     Op::kMax};
      if (!kAllowed.contains(e->op) || e->type != DType::kI64)
        reject("bounds", "{} in the bound {}", op_info(e->op).name, text(root));
    });
  }

  // --- accumulators ---
  struct AccState {
    size_t loop_depth = 0;  // where declared
    bool live = false, read = false;
    size_t last = 0;  // position of the last accumulate, 0 = none
  };

  AccState& acc(uint32_t id) {
    if (id >= kernel_.accs.size()) reject("handles", "accumulator {}", id);
    AccState& state = accs_[id];
    if (!state.live) reject("scope", "accumulator {} is not visible here", kernel_.accs[id].name);
    return state;
  }

  void read_acc(const Node& node) {
    AccState& state = acc(node.id);
    const AccDecl& decl = kernel_.accs[node.id];
    if (node.op == Op::kAccIndex && !is_arg_op(decl.op))
      reject("acc", "{} has no index", decl.name);
    if (node.op == Op::kAccValue && node.type != decl.type)
      reject("types", "accumulator {}", decl.name);
    state.read = true;
    if (loops_.size() > state.loop_depth && state.last >= loops_[state.loop_depth].position)
      reject("acc", "{} is read inside a loop that accumulates it", decl.name);
  }

  void declare_acc(const DeclareAcc& declare) {
    if (declare.acc >= kernel_.accs.size()) reject("handles", "accumulator {}", declare.acc);
    const AccDecl& decl = kernel_.accs[declare.acc];
    if (accs_.contains(declare.acc)) reject("scope", "{} is declared twice", decl.name);
    const bool ordered = decl.op == AccOp::kMax || decl.op == AccOp::kMin;
    if (!is_value_type(decl.type) || (decl.type == DType::kBool && !ordered))
      reject("types", "accumulator {} of {}", decl.name, xc::name(decl.type));
    if ((decl.op == AccOp::kDot || decl.op == AccOp::kMaxNumber) && !is_float(decl.type))
      reject("types", "accumulator {} of {}", decl.name, xc::name(decl.type));
    if (needs_matrix_units(decl.op) &&
        (decl.type != DType::kF32 || decl.order != AccOrder::kSequential))
      reject("types", "accumulator {}: {} is f32, in sequence", decl.name, acc_op_name(decl.op));
    if (declare.init &&
        (is_arg_op(decl.op) || decl.op == AccOp::kDotBf16x3 || declare.init.type() != decl.type))
      reject("types", "the initial value of {}", decl.name);
    accs_[declare.acc] = {loops_.size(), true, false, 0};
    scope_accs_.back().push_back(declare.acc);
    if (level_ == Level::kScheduled && decl.order != AccOrder::kSequential && in_vector())
      reject("lanes", "{} is declared inside a vector loop", decl.name);
  }

  void accumulate(const Accumulate& stmt) {
    AccState& state = acc(stmt.acc);
    const AccDecl& decl = kernel_.accs[stmt.acc];
    if (!stmt.value || stmt.value.type() != decl.type)
      reject("types", "the value accumulated into {}", decl.name);
    if (is_dot(decl.op)) {
      if (!stmt.second || stmt.second.type() != decl.type)
        reject("acc", "{}: a dot product has two factors of its type", decl.name);
    } else if (static_cast<bool>(stmt.second) != is_arg_op(decl.op) ||
               (stmt.second && stmt.second.type() != DType::kI64)) {
      reject("acc", "{}: an i64 index goes with an arg-reduction", decl.name);
    }
    if (loops_.size() <= state.loop_depth)
      reject("acc", "{} is accumulated outside of any loop", decl.name);
    if (state.read) reject("acc", "{} is accumulated after it was read", decl.name);
    state.last = position_;
    if (level_ == Level::kScheduled && decl.order != AccOrder::kSequential) {
      const For& inner = *loops_.back().loop;
      if (inner.kind != LoopKind::kVector || inner.factor != kReductionLanes)
        reject("lanes", "{} is accumulated outside of a vector({}) loop", decl.name,
               kReductionLanes);
    }
  }

  // --- statements ---
  bool in_vector() const {
    return std::any_of(loops_.begin(), loops_.end(),
                       [](const Open& open) { return open.loop->kind == LoopKind::kVector; });
  }

  void for_loop(const For& loop) {
    if (loop.var.id >= kernel_.vars.size()) reject("handles", "loop variable {}", loop.var.id);
    const std::string& var = kernel_.vars[loop.var.id];
    if (!loop_vars_.insert(loop.var.id).second) reject("scope", "{} belongs to two loops", var);
    bound(loop.begin);
    bound(loop.end);
    if (loops_.size() >= kMaxLoopDepth) reject("limits", "more than {} loop levels", kMaxLoopDepth);
    if (loop.factor < 1 || loop.factor > kMaxFactor)
      reject("limits", "factor {} of loop {}", loop.factor, var);
    if (loop.kind == LoopKind::kParallel && !loops_.empty())
      reject("parallel", "{} is not the outermost loop", var);
    for (const Open& open : loops_)
      if (open.loop->kind == LoopKind::kVector) inside_vector(loop, *open.loop);
    if (loop.kind == LoopKind::kVector) {
      static const std::set<int> kLanes = {4, 8, 16, 32, 64};
      if (!kLanes.contains(loop.factor)) reject("vector", "{} lanes in loop {}", loop.factor, var);
    }
    loops_.push_back({&loop, position_});
    block(loop.body);
    loops_.pop_back();
    if (loop.kind == LoopKind::kVector)
      if (std::string why = iteration_dependence(kernel_, loop, true); !why.empty())
        reject("vector", "{}", why);
  }

  void inside_vector(const For& loop, const For& vector) {
    if (loop.kind == LoopKind::kVector || loop.kind == LoopKind::kParallel)
      reject("vector", "loop {} inside vector loop {}", kernel_.vars[loop.var.id],
             kernel_.vars[vector.var.id]);
    for (const Expr& root : {loop.begin, loop.end})
      visit_nodes(root, [&](const Expr& e) {
        if (e->op == Op::kLoopVar && e->id == vector.var.id)
          reject("vector", "the bounds of {} depend on vector variable {}",
                 kernel_.vars[loop.var.id], kernel_.vars[vector.var.id]);
      });
  }

  void store(const Store& stmt) {
    const BufferDecl& decl = buffer(stmt.buffer);
    subscripts(decl, stmt.indices);
    if (decl.access == Access::kIn) reject("access", "{} is not an output", decl.name);
    if (!stmt.value || stmt.value.type() != value_type(decl.type))
      reject("types", "the value stored to {}", decl.name);
    if (stmt.guard && stmt.guard.type() != DType::kBool)
      reject("types", "the guard of a store to {}", decl.name);
    stored_.insert(stmt.buffer);
    for (const Index& index : stmt.indices)
      if (!index.is_affine() && (!index.extent || index.extent.type() != DType::kI64))
        reject("types", "the extent of a checked index of {}", decl.name);
  }

  void let(const Let& stmt) {
    if (stmt.reg >= kernel_.regs.size()) reject("handles", "register {}", stmt.reg);
    const RegDecl& decl = kernel_.regs[stmt.reg];
    if (!defined_regs_.insert(stmt.reg).second)
      reject("scope", "register {} is defined twice", decl.name);
    if (!stmt.value || stmt.value.type() != decl.type)
      reject("types", "the value of register {}", decl.name);
    live_regs_.insert(stmt.reg);
    scope_regs_.back().push_back(stmt.reg);
  }

  void block(const Block& statements) {
    scope_regs_.emplace_back();
    scope_accs_.emplace_back();
    for (const Stmt& stmt : statements) {
      ++position_;
      visit_exprs(stmt, [&](const Expr& e) { expression(e); });
      if (const auto* loop = std::get_if<For>(&stmt.node))
        for_loop(*loop);
      else if (const auto* l = std::get_if<Let>(&stmt.node))
        let(*l);
      else if (const auto* s = std::get_if<Store>(&stmt.node))
        store(*s);
      else if (const auto* d = std::get_if<DeclareAcc>(&stmt.node))
        declare_acc(*d);
      else if (const auto* a = std::get_if<Accumulate>(&stmt.node))
        accumulate(*a);
    }
    for (const uint32_t reg : scope_regs_.back()) live_regs_.erase(reg);
    for (const uint32_t id : scope_accs_.back()) accs_[id].live = false;
    scope_regs_.pop_back();
    scope_accs_.pop_back();
  }

  struct Open {
    const For* loop;
    size_t position;
  };

  const Kernel& kernel_;
  Level level_;
  std::set<std::string> names_;
  std::vector<Open> loops_;
  std::set<uint32_t> loop_vars_, defined_regs_, live_regs_, stored_;
  std::vector<std::vector<uint32_t>> scope_regs_, scope_accs_;
  std::unordered_map<uint32_t, AccState> accs_;
  size_t position_ = 0, nodes_ = 0;
};

}  // namespace

void verify(const Kernel& kernel, Level level) {
  Verifier(kernel, level).run();
}

}  // namespace xc::loop
