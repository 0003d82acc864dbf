#include "loop/interpret.h"

#include <algorithm>
#include <unordered_map>

#include "base/checked.h"
#include "loop/evaluate.h"

namespace xc::loop {

namespace {

// A partial result of an accumulator.
struct Partial {
  uint64_t value;
  int64_t index;
};

struct AccState {
  std::vector<Partial> partials;
  uint64_t init = 0;
  bool has_init = false;
  bool finished = false;
  Partial result{};
  DotBf16 terms{};
  DotBf16x3 split{};
  int64_t rows = 0, columns = 0;  // iterations of the loops around
};

// An expression as a list of nodes in evaluation order, the root last.
struct Step {
  const Node* node;
  std::vector<size_t> args, checked, extents;
  size_t guard = 0;
};
using Program = std::vector<Step>;

class Interpreter {
 public:
  Interpreter(const Kernel& kernel, const xc_kargs& args)
      : kernel_(kernel),
        args_(args),
        regs_(kernel.regs.size()),
        vars_(kernel.vars.size()),
        accs_(kernel.accs.size()) {
    bind_buffers();
  }

  int32_t run() {
    block(kernel_.body);
    return range_error_ ? XC_KERNEL_RANGE_ERROR : XC_KERNEL_OK;
  }

 private:
  void bind_buffers() {
    const std::span<const int64_t> dims(args_.dims, kernel_.dims.size());
    auto* scratch = static_cast<std::byte*>(args_.scratch);
    size_t parameter = 0;
    for (const BufferDecl& decl : kernel_.buffers) {
      Bound bound{&decl, nullptr, {}};
      if (decl.is_scratch()) {
        bound.data = scratch;
        const int64_t bytes =
            checked_mul(evaluate_size(decl.scratch_elements, dims), element_size(decl.type));
        scratch += align_up(bytes, kScratchAlignment);
      } else {
        bound.data = static_cast<std::byte*>(args_.buffers[parameter++]);
      }
      for (const Stride& stride : decl.strides)
        bound.strides.push_back(stride.is_param ? args_.strides[stride.param] : stride.value);
      buffers_.push_back(std::move(bound));
    }
  }

  // --- expressions ---
  const Program& program(const Expr& root) {
    auto [found, fresh] = programs_.try_emplace(root.get());
    if (!fresh) return found->second;
    std::unordered_map<const Node*, size_t> slot;
    visit_nodes(root, [&](const Expr& e) {
      Step step{e.get(), {}, {}, {}, 0};
      for (const Expr& arg : e->args) step.args.push_back(slot.at(arg.get()));
      for (const Index& index : e->indices) {
        step.checked.push_back(index.is_affine() ? 0 : slot.at(index.checked.get()));
        step.extents.push_back(index.is_affine() ? 0 : slot.at(index.extent.get()));
      }
      if (e->guard) step.guard = slot.at(e->guard.get());
      slot.emplace(e.get(), found->second.size());
      found->second.push_back(std::move(step));
    });
    return found->second;
  }

  uint64_t eval(const Expr& root) {
    const Program& steps = program(root);
    std::vector<uint64_t> values(steps.size());
    std::vector<uint64_t> operands;
    for (size_t i = 0; i < steps.size(); ++i) {
      const Node& node = *steps[i].node;
      operands.clear();
      for (const size_t arg : steps[i].args) operands.push_back(values[arg]);
      switch (node.op) {
        case Op::kConst:
          values[i] = node.bits;
          break;
        case Op::kReg:
          values[i] = regs_[node.id];
          break;
        case Op::kLoopVar:
          values[i] = static_cast<uint64_t>(vars_[node.id]);
          break;
        case Op::kDim:
          values[i] = static_cast<uint64_t>(args_.dims[node.id]);
          break;
        case Op::kAccValue:
          values[i] = result(node.id).value;
          break;
        case Op::kAccIndex:
          values[i] = static_cast<uint64_t>(result(node.id).index);
          break;
        case Op::kLoad:
          values[i] = load(steps[i], values);
          break;
        default:
          values[i] = evaluate_op(node.op, node.type,
                                  node.args[node.op == Op::kSelect ? 1 : 0].type(), operands);
      }
    }
    return values.back();
  }
  int64_t eval_int(const Expr& root) { return static_cast<int64_t>(eval(root)); }

  // --- memory ---
  struct Bound {
    const BufferDecl* decl;
    std::byte* data;
    std::vector<int64_t> strides;
  };

  int64_t affine(const Affine& index) const {
    int64_t sum = index.constant();
    for (const Affine::Term& term : index.terms())
      sum += term.coefficient * (term.is_dim ? args_.dims[term.id] : vars_[term.id]);
    return sum;
  }

  // A checked index against its extent; a miss is a range error.
  bool in_range(const Index& index, uint64_t value, int64_t extent, int64_t& out) {
    out = index.checked.type() == DType::kI32 ? static_cast<int32_t>(value)
                                              : static_cast<int64_t>(value);
    const bool inside = out >= 0 && out < extent;
    range_error_ |= !inside;
    return inside;
  }

  std::byte* element(const Bound& buffer, int64_t offset) const {
    return buffer.data + offset * element_size(buffer.decl->type);
  }

  uint64_t load(const Step& step, const std::vector<uint64_t>& values) {
    const Node& node = *step.node;
    if (node.guard && values[step.guard] == 0) return 0;
    const Bound& buffer = buffers_[node.id];
    int64_t offset = 0;
    bool inside = true;
    for (size_t d = 0; d < node.indices.size(); ++d) {
      int64_t at = 0;
      if (node.indices[d].is_affine())
        at = affine(node.indices[d].affine);
      else
        inside &= in_range(node.indices[d], values[step.checked[d]],
                           static_cast<int64_t>(values[step.extents[d]]), at);
      if (inside) offset += at * buffer.strides[d];
    }
    return inside ? load_element(buffer.decl->type, element(buffer, offset)) : 0;
  }

  void store(const Store& stmt) {
    const uint64_t value = eval(stmt.value);
    if (stmt.guard && eval(stmt.guard) == 0) return;
    const Bound& buffer = buffers_[stmt.buffer];
    int64_t offset = 0;
    bool inside = true;
    for (size_t d = 0; d < stmt.indices.size(); ++d) {
      const Index& index = stmt.indices[d];
      int64_t at = 0;
      if (index.is_affine())
        at = affine(index.affine);
      else
        inside &= in_range(index, eval(index.checked), eval_int(index.extent), at);
      if (inside) offset += at * buffer.strides[d];
    }
    if (inside) store_element(buffer.decl->type, element(buffer, offset), value);
  }

  // --- accumulators ---
  void declare(const DeclareAcc& stmt) {
    const AccDecl& decl = kernel_.accs[stmt.acc];
    AccState& acc = accs_[stmt.acc];
    const auto count = static_cast<size_t>(partial_results(decl.order));
    acc = {};
    if (!trips_.empty()) acc.rows = trips_.back();
    if (trips_.size() > 1) acc.columns = trips_[trips_.size() - 2];
    acc.partials.assign(count, {accumulator_identity(decl.op, decl.type), -1});
    if (!is_arg_op(decl.op)) {
      acc.has_init = stmt.init || is_sum(decl.op);
      acc.init = stmt.init ? eval(stmt.init) : 0;  // an absent init of a sum is +0
    }
    if (decl.order == AccOrder::kSequential && acc.has_init) acc.partials[0].value = acc.init;
  }

  void merge(const AccDecl& decl, Partial& into, const Partial& from) const {
    if (!is_arg_op(decl.op))
      into.value = combine(decl.op, decl.type, into.value, from.value);
    else if (replaces(decl.op, decl.type, from.value, from.index, into.value, into.index))
      into = from;
  }

  void accumulate(const Accumulate& stmt) {
    AccState& acc = accs_[stmt.acc];
    const AccDecl& decl = kernel_.accs[stmt.acc];
    Partial& partial = acc.partials[static_cast<size_t>(ordinals_.back()) % acc.partials.size()];
    const uint64_t value = eval(stmt.value);
    if (decl.op == AccOp::kDot) {
      const uint64_t args[] = {value, eval(stmt.second), partial.value};
      partial.value = evaluate_op(Op::kFma, decl.type, decl.type, args);
    } else if (decl.op == AccOp::kDotBf16) {
      partial.value = acc.terms.add(value, eval(stmt.second), partial.value);
    } else if (decl.op == AccOp::kDotBf16x3) {
      acc.split.add(value, eval(stmt.second));
    } else {
      merge(decl, partial, {value, stmt.second ? eval_int(stmt.second) : -1});
    }
  }

  const Partial& result(uint32_t id) {
    AccState& acc = accs_[id];
    if (acc.finished) return acc.result;
    const AccDecl& decl = kernel_.accs[id];
    std::vector<Partial> p = acc.partials;
    if (decl.op == AccOp::kDotBf16) p[0].value = acc.terms.onto(p[0].value);
    if (decl.op == AccOp::kDotBf16x3) p[0].value = acc.split.result(acc.rows, acc.columns);
    if (decl.order != AccOrder::kSequential) {
      constexpr size_t kLanes = kReductionLanes;
      for (size_t l = 0; l < kLanes && decl.order == AccOrder::kLanes; ++l) {
        merge(decl, p[l], p[l + kLanes]);
        merge(decl, p[l + 2 * kLanes], p[l + 3 * kLanes]);
        merge(decl, p[l], p[l + 2 * kLanes]);
      }
      for (size_t half = kLanes / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; ++l) merge(decl, p[l], p[l + half]);
      if (acc.has_init) p[0].value = combine(decl.op, decl.type, acc.init, p[0].value);
    }
    acc.result = p[0];
    acc.finished = true;
    return acc.result;
  }

  // --- statements ---
  void loop(const For& stmt) {
    const bool task = stmt.kind == LoopKind::kParallel;
    const int64_t begin = task ? args_.begin : eval_int(stmt.begin);
    const int64_t end = task ? args_.end : eval_int(stmt.end);
    ordinals_.push_back(0);
    trips_.push_back(std::max<int64_t>(end - begin, 0));
    for (int64_t v = begin; v < end; ++v, ++ordinals_.back()) {
      vars_[stmt.var.id] = v;
      block(stmt.body);
    }
    ordinals_.pop_back();
    trips_.pop_back();
  }

  void block(const Block& statements) {
    for (const Stmt& stmt : statements) {
      if (const auto* l = std::get_if<For>(&stmt.node))
        loop(*l);
      else if (const auto* r = std::get_if<Let>(&stmt.node))
        regs_[r->reg] = eval(r->value);
      else if (const auto* s = std::get_if<Store>(&stmt.node))
        store(*s);
      else if (const auto* d = std::get_if<DeclareAcc>(&stmt.node))
        declare(*d);
      else if (const auto* a = std::get_if<Accumulate>(&stmt.node))
        accumulate(*a);
    }
  }

  const Kernel& kernel_;
  const xc_kargs& args_;
  std::vector<Bound> buffers_;
  std::vector<uint64_t> regs_;
  std::vector<int64_t> vars_, ordinals_, trips_;  // of the loops around, outermost first
  std::vector<AccState> accs_;
  std::unordered_map<const Node*, Program> programs_;
  bool range_error_ = false;
};

}  // namespace

int32_t interpret(const Kernel& kernel, const xc_kargs& args, MathLevel math) {
  const Kernel expanded = expand_math(kernel, math);
  return Interpreter(expanded, args).run();
}

}  // namespace xc::loop
