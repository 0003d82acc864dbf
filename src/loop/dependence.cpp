#include "loop/dependence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace xc::loop {

namespace {

constexpr int64_t kFar = int64_t{1} << 30;  // larger numbers are not reasoned about

struct Reference {
  uint32_t buffer;
  const std::vector<Index>* indices;
  bool stored;
};

// The block loop of `split`, or a part of it: body loop over [v * f, min(v * f + f, ...)), or from
// max(v * f, ...), so that the ranges of its variable are disjoint between iterations of v.
// The factor, or nullopt when it is none.
std::optional<int64_t> block_of(const For& inner, Var outer) {
  const auto scaled = [&](const Expr& e) {
    return e->op == Op::kMul && e->args[0]->op == Op::kLoopVar && e->args[0]->id == outer.id &&
           is_const(e->args[1]);
  };
  Expr begin = inner.begin;
  if (begin->op == Op::kMax) begin = scaled(begin->args[0]) ? begin->args[0] : begin->args[1];
  if (!scaled(begin)) return std::nullopt;
  const int64_t factor = const_as_int(*begin->args[1]);
  const std::function<bool(const Expr&)> reaches = [&](const Expr& end) {
    if (end->op == Op::kMin) return reaches(end->args[0]) || reaches(end->args[1]);
    return end->op == Op::kAdd && same_expr(end->args[0], begin) && is_const(end->args[1]) &&
           const_as_int(*end->args[1]) <= factor;
  };
  return reaches(inner.end) ? std::optional(factor) : std::nullopt;
}

class Analysis {
 public:
  Analysis(const Kernel& kernel, const For& loop, bool with_scratch)
      : kernel_(kernel), loop_(loop), with_scratch_(with_scratch) {
    collect(loop.body);
  }

  std::string run() { return carried_.empty() ? memory() : carried_; }

  std::string memory() {
    for (const Reference& a : references_) {
      if (!a.stored) continue;
      for (const Reference& b : references_)
        if (a.buffer == b.buffer && !apart(a, b))
          return fmt::format("iterations of {} may meet in elements of {}",
                             kernel_.vars[loop_.var.id], kernel_.buffers[a.buffer].name);
    }
    return "";
  }

 private:
  void collect(const Block& block) {
    for (const Stmt& stmt : block) {
      visit_exprs(stmt, [&](const Expr& root) {
        visit_nodes(root, [&](const Expr& e) {
          if (e->op == Op::kLoad) add(e->id, e->indices, false);
        });
      });
      if (const auto* store = std::get_if<Store>(&stmt.node)) {
        add(store->buffer, store->indices, true);
      } else if (const auto* declare = std::get_if<DeclareAcc>(&stmt.node)) {
        declared_.insert(declare->acc);
      } else if (const auto* accumulate = std::get_if<Accumulate>(&stmt.node)) {
        if (!declared_.contains(accumulate->acc) &&
            (kernel_.accs[accumulate->acc].order == AccOrder::kSequential || !with_scratch_))
          carried_ = fmt::format("accumulator {} carries a value between iterations of {}",
                                 kernel_.accs[accumulate->acc].name, kernel_.vars[loop_.var.id]);
      } else if (const auto* inner = std::get_if<For>(&stmt.node)) {
        const auto factor = block_of(*inner, loop_.var);
        if (factor && (blocks_.empty() || *factor == block_factor_)) {
          block_factor_ = *factor;
          if (blocks_.empty()) block_ = inner->var;
          blocks_.insert(inner->var.id);
        } else {
          inner_vars_.insert(inner->var.id);
        }
        if (const auto most = largest(*inner)) last_[inner->var.id] = *most - 1;
        collect(inner->body);
      }
    }
  }

  void add(uint32_t buffer, const std::vector<Index>& indices, bool stored) {
    if (kernel_.buffers[buffer].is_scratch() && !with_scratch_) return;
    references_.push_back({buffer, &indices, stored});
  }

  // True when no element of `a` in one iteration equals one of `b` in another: some dimension
  // proves it.
  bool apart(const Reference& a, const Reference& b) const {
    for (size_t d = 0; d < a.indices->size() && d < b.indices->size(); ++d) {
      const Index &x = (*a.indices)[d], &y = (*b.indices)[d];
      if (x.is_affine() && y.is_affine() && out_of_reach(x.affine, y.affine)) return true;
      if (!x.is_affine() || !y.is_affine() || has_inner(x.affine) || has_inner(y.affine)) continue;
      const Affine difference = of_one_block(x.affine) - of_one_block(y.affine);
      if (!difference.is_constant()) continue;
      const int64_t step = coefficient(x.affine), c = difference.constant();
      if (step == 0 ? c != 0 : (c == 0 || (c % step != 0 && !uses_block(x.affine)))) return true;
    }
    return false;
  }

  /// Iterations of a loop from 0, where a number bounds them.
  static std::optional<int64_t> largest(const For& loop) {
    if (!is_const(loop.begin) || const_as_int(*loop.begin) != 0) return std::nullopt;
    const Expr& bound = loop.end->op == Op::kMin ? loop.end->args[0] : loop.end;
    return is_const(bound) ? std::optional(const_as_int(*bound)) : std::nullopt;
  }

  /// What inner loops add to an index is less than one step of the loop (the loops of a tile).
  bool out_of_reach(const Affine& x, const Affine& y) const {
    const int64_t step = x.coefficient(loop_.var);
    if (step == 0 || step != y.coefficient(loop_.var)) return false;
    int64_t low = 0, high = 0;  // of what inner loops add to the difference
    Affine rest;                // what all iterations share
    for (const auto& [affine, sign] : {std::pair{&x, 1}, std::pair{&y, -1}}) {
      rest = rest + Affine(sign * affine->constant());
      for (const Affine::Term& term : affine->terms()) {
        if (!term.is_dim && term.id == loop_.var.id) continue;
        if (const auto it = last_.find(term.id); !term.is_dim && it != last_.end()) {
          if (it->second > kFar || std::abs(term.coefficient) > kFar) return false;
          const int64_t most = sign * term.coefficient * it->second;
          if (std::abs(most) > kFar) return false;
          (most < 0 ? low : high) += most;
        } else if (!term.is_dim && (inner_vars_.contains(term.id) || blocks_.contains(term.id))) {
          return false;
        } else {
          const Affine one = term.is_dim ? Affine(DimParam{term.id}) : Affine(Var{term.id});
          rest = rest + one * (sign * term.coefficient);
        }
      }
    }
    return rest.is_constant() && std::abs(rest.constant()) <= kFar &&
           std::abs(step) > std::max(high, -low) + std::abs(rest.constant());
  }

  bool has_inner(const Affine& affine) const {
    size_t blocks = 0;
    for (const Affine::Term& term : affine.terms()) {
      if (term.is_dim) continue;
      if (inner_vars_.contains(term.id)) return true;
      blocks += blocks_.contains(term.id) || term.id == loop_.var.id ? 1 : 0;
    }
    return blocks > 1;
  }
  // Variables of several block loops of one factor stand for the same ranges.
  Affine of_one_block(Affine affine) const {
    for (uint32_t var : blocks_)
      if (var != block_.id) affine = affine.substitute(Var{var}, Affine(block_));
    return affine;
  }
  bool uses_block(const Affine& affine) const {
    return std::any_of(affine.terms().begin(), affine.terms().end(),
                       [&](const Affine::Term& t) { return !t.is_dim && blocks_.contains(t.id); });
  }
  int64_t coefficient(const Affine& affine) const {
    for (const Affine::Term& term : affine.terms())
      if (!term.is_dim && (term.id == loop_.var.id || blocks_.contains(term.id)))
        return term.coefficient;
    return 0;
  }

  const Kernel& kernel_;
  const For& loop_;
  bool with_scratch_;
  std::string carried_;
  std::vector<Reference> references_;
  std::unordered_set<uint32_t> inner_vars_, blocks_, declared_;
  Var block_;  // one of blocks_
  int64_t block_factor_ = 0;
  std::unordered_map<uint32_t, int64_t> last_;  // of inner loops with a known bound
};

}  // namespace

std::string iteration_dependence(const Kernel& kernel, const For& loop, bool with_scratch) {
  return Analysis(kernel, loop, with_scratch).run();
}

std::string memory_dependence(const Kernel& kernel, const For& loop) {
  return Analysis(kernel, loop, true).memory();
}

}  // namespace xc::loop
