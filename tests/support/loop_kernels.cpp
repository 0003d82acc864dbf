#include "support/loop_kernels.h"

#include <random>

#include "loop/builder.h"

namespace xc::test {

using namespace xc::loop;

Kernel gelu_chain() {
  KernelBuilder b("gelu_chain");
  const DimParam n = b.dim("n"), m = b.dim("m");
  const Buffer x = b.input("x", DType::kF32, {b.stride("xs"), 1});
  const Buffer bias = b.input("b", DType::kF32, {1});
  const Buffer y = b.output("y", DType::kF32, {b.stride("ys"), 1});
  b.loop("i", 0, n, [&](Var i) {
    b.loop("j", 0, m, [&](Var j) {
      const Expr v = b.let("v", x(i, j) + bias(j));
      const Expr inner = 0.79788456 * (v + 0.044715 * (v * v * v));
      b.store(y(i, j), 0.5 * v * (1.0 + tanh(inner)));
    });
  });
  return b.finish();
}

Kernel norm_chain() {
  KernelBuilder b("norm_chain");
  const DimParam n = b.dim("n"), m = b.dim("m");
  const StrideParam xs = b.stride("xs"), rs = b.stride("rs"), ys = b.stride("ys");
  const Buffer x = b.input("x", DType::kF32, {xs, 1}), r = b.input("r", DType::kF32, {rs, 1});
  const Buffer g = b.input("g", DType::kF32, {1}), beta = b.input("beta", DType::kF32, {1});
  const Buffer y = b.output("y", DType::kF32, {ys, 1});
  const Buffer row = b.scratch("row", DType::kF32, m);
  b.loop("i", 0, n, [&](Var i) {
    const Expr count = b.let("count", cast(DType::kF32, dim_value(m)));
    const Acc sum = b.acc("sum", AccOp::kSum, DType::kF32);
    b.loop("j", 0, m, [&](Var j) {
      const Expr v = b.let("v", x(i, j) + r(i, j));
      b.store(row(j), v);
      b.accumulate(sum, v);
    });
    const Expr mean = b.let("mean", sum.value() / count);
    const Acc squares = b.acc("squares", AccOp::kSum, DType::kF32);
    b.loop("k", 0, m, [&](Var k) {
      const Expr d = row(k) - mean;
      b.accumulate(squares, d * d);
    });
    const Expr scale = b.let("scale", rsqrt(squares.value() / count + 1e-5));
    b.loop("l", 0, m, [&](Var l) { b.store(y(i, l), (row(l) - mean) * scale * g(l) + beta(l)); });
  });
  return b.finish();
}

Kernel masked_softmax() {
  KernelBuilder b("masked_softmax");
  const DimParam n = b.dim("n"), m = b.dim("m");
  const StrideParam xs = b.stride("xs"), ys = b.stride("ys");
  const Buffer x = b.input("x", DType::kF32, {xs, 1}), mask = b.input("mask", DType::kF32, {1});
  const Buffer y = b.output("y", DType::kF32, {ys, 1});
  const Buffer row = b.scratch("row", DType::kF32, m);
  b.loop("i", 0, n, [&](Var i) {
    const Acc top = b.acc("top", AccOp::kMax, DType::kF32);
    b.loop("j", 0, m, [&](Var j) {
      const Expr v = b.let("v", x(i, j) * 0.125 + mask(j));
      b.store(row(j), v);
      b.accumulate(top, v);
    });
    const Acc sum = b.acc("sum", AccOp::kSum, DType::kF32);
    b.loop("k", 0, m, [&](Var k) {
      const Expr e = b.let("e", exp(row(k) - top.value()));
      b.store(row(k), e);
      b.accumulate(sum, e);
    });
    const Expr scale = b.let("scale", reciprocal(sum.value()));
    b.loop("l", 0, m, [&](Var l) { b.store(y(i, l), row(l) * scale); });
  });
  return b.finish();
}

Kernel row_arg(AccOp op) {
  KernelBuilder b("row_arg");
  const DimParam n = b.dim("n"), m = b.dim("m");
  const Buffer x = b.input("x", DType::kF32, {b.stride("xs"), 1});
  const Buffer at = b.output("at", DType::kI64, {1}), best = b.output("best", DType::kF32, {1});
  b.loop("i", 0, n, [&](Var i) {
    const Acc top = b.acc("top", op, DType::kF32);
    b.loop("j", 0, m, [&](Var j) { b.accumulate(top, x(i, j), loop_var(j)); });
    b.store(at(i), top.index());
    b.store(best(i), top.value());
  });
  return b.finish();
}

Kernel gram() {
  constexpr int64_t kRows = 32;
  KernelBuilder b("gram");
  const DimParam n = b.dim("n"), m = b.dim("m");
  const Buffer x = b.input("x", DType::kF32, {b.stride("xs"), 1});
  const Buffer z = b.output("z", DType::kF32, {b.stride("zs"), 1});
  const Buffer q = b.scratch("q", DType::kF32, m * i64(kRows), {kRows, 1});
  const Buffer t = b.scratch("t", DType::kF32, n * i64(kRows), {kRows, 1});
  b.loop("b", 0, (n + i64(kRows - 1)) / i64(kRows), [&](Var block) {
    const Expr rows = min(i64(kRows), n - loop_var(block) * i64(kRows));
    const auto row = [&](Var r) { return Affine(block) * kRows + Affine(r); };
    b.loop("k0", 0, m,
           [&](Var k) { b.loop("r0", 0, rows, [&](Var r) { b.store(q(k, r), x(row(r), k)); }); });
    b.loop("j1", 0, n, [&](Var j) {
      b.loop("r1", 0, rows, [&](Var r) {
        const Acc sum = b.acc("s", AccOp::kDot, DType::kF32, AccOrder::kSequential);
        b.loop("k1", 0, m, [&](Var k) { b.accumulate(sum, q(k, r), x(j, k)); });
        b.store(t(j, r), sum.value());
      });
    });
    b.loop("r2", 0, rows, [&](Var r) {
      b.loop("k2", 0, m, [&](Var k) {
        const Acc sum = b.acc("s", AccOp::kDot, DType::kF32, AccOrder::kSequential);
        b.loop("j2", 0, n, [&](Var j) { b.accumulate(sum, x(j, k), t(j, r)); });
        b.store(z(row(r), k), sum.value());
      });
    });
  });
  return b.finish();
}

Kernel narrow_products() {
  KernelBuilder b("narrow_products");
  const DimParam n = b.dim("n"), m = b.dim("m");
  const Buffer x = b.input("x", DType::kF32, {b.stride("xs"), 1});
  const Buffer v = b.input("b", DType::kF32, {1}), y = b.output("y", DType::kF32, {1});
  b.loop("i", 0, n, [&](Var i) {
    std::vector<Acc> d;
    for (int c = 0; c < 4; ++c)
      d.push_back(b.acc("d", AccOp::kDot, DType::kF32, AccOrder::kLanes16));
    b.loop("j", 0, m, [&](Var j) {
      for (int c = 0; c < 4; ++c)
        b.accumulate(d[static_cast<size_t>(c)], x(i, j), v(j) * (c + 1.0));
    });
    b.store(y(i), d[0].value() + d[1].value() * d[2].value() - d[3].value());
  });
  return b.finish();
}

Kernel flat_relu() {
  KernelBuilder b("flat_relu");
  const DimParam n = b.dim("n");
  const Buffer x = b.input("x", DType::kF32, {1}), y = b.output("y", DType::kF32, {1});
  b.loop("i", 0, n, [&](Var i) { b.store(y(i), max(f32(0), x(i))); });
  return b.finish();
}

Kernel column_sum() {
  KernelBuilder b("column_sum");
  const DimParam n = b.dim("n"), m = b.dim("m");
  const Buffer x = b.input("x", DType::kF32, {b.stride("xs"), 1});
  const Buffer y = b.output("y", DType::kF32, {1});
  b.loop("j", 0, m, [&](Var j) {
    const Acc sum = b.acc("sum", AccOp::kSum, DType::kF32, AccOrder::kSequential);
    b.loop("i", 0, n, [&](Var i) { b.accumulate(sum, x(i, j)); });
    b.store(y(j), sum.value());
  });
  return b.finish();
}

Kernel gather_rows() {
  KernelBuilder b("gather_rows");
  const DimParam n = b.dim("n"), m = b.dim("m"), rows = b.dim("rows");
  const Buffer table = b.input("table", DType::kF32, {b.stride("ts"), 1});
  const Buffer ids = b.input("ids", DType::kI64, {1});
  const Buffer y = b.output("y", DType::kF32, {b.stride("ys"), 1});
  b.loop("i", 0, n, [&](Var i) {
    const Expr id = b.let("id", ids(i));
    b.loop("j", 0, m, [&](Var j) { b.store(y(i, j), table(checked(id, rows), j)); });
  });
  return b.finish();
}

namespace {

class RandomKernel {
 public:
  explicit RandomKernel(uint64_t seed) : random_(seed), b_("random") {}

  Kernel build(bool rows) {
    const DimParam n = b_.dim("n"), m = b_.dim("m");
    type_ = pick({DType::kF32, DType::kF32, DType::kF32, DType::kF64, DType::kI32, DType::kI64,
                  DType::kU8, DType::kI8, DType::kI16, DType::kU32});
    const DType stored =
        type_ == DType::kF32 ? pick({DType::kF32, DType::kF32, DType::kF16, DType::kBF16}) : type_;
    x0_ = b_.input("x0", stored, {b_.stride("x0s"), 1});
    x1_ = b_.input("x1", type_, {b_.stride("x1s"), b_.stride("x1t")});
    row_ = b_.input("b", type_, {1});
    column_ = b_.input("s", type_, {1});
    flag_ = b_.input("flag", DType::kBool, {1});
    const Buffer y = b_.output("y", stored, {b_.stride("ys"), 1});
    const Buffer z = b_.output("z", type_, {1});
    const Buffer w = b_.output("w", DType::kBool, {b_.stride("ws"), b_.stride("wt")});
    const Buffer t = b_.scratch("t", type_, m);
    b_.loop("i", 0, n, [&](Var i) {
      pool_.clear();
      pool_.push_back(b_.let("c", column_(i)));
      if (rows) {
        AccOp op = pick({AccOp::kSum, AccOp::kProd, AccOp::kMax, AccOp::kMin, AccOp::kMaxNumber});
        if (op == AccOp::kMaxNumber && !is_floating()) op = AccOp::kMax;
        const Acc acc = b_.acc("acc", op, type_);
        const Acc arg = b_.acc(
            "arg", pick({AccOp::kArgMax, AccOp::kArgMin, AccOp::kArgMaxLast, AccOp::kArgMinLast}),
            type_);
        b_.loop("k", 0, m, [&](Var k) {
          const size_t before = pool_.size();
          leaves(i, k);
          const Expr e = b_.let("e", expression(3));
          b_.store(t(k), e);
          b_.accumulate(acc, e);
          b_.accumulate(arg, expression(2), loop_var(k));
          pool_.resize(before);
        });
        pool_.push_back(acc.value());
        pool_.push_back(cast(type_, arg.index()));
        pool_.push_back(arg.value());
        b_.store(z(i), b_.let("total", expression(2)));
      } else {
        b_.store(z(i), column_(i));
      }
      b_.loop("j", 0, m, [&](Var j) {
        leaves(i, j);
        if (rows) pool_.push_back(t(j));
        const Expr v = b_.let("v", expression(4));
        b_.store(w(i, j), condition(v, expression(2)));
        b_.store(y(i, j), v);
      });
    });
    return b_.finish();
  }

 private:
  template <class T>
  T pick(std::initializer_list<T> list) {
    return *(list.begin() + static_cast<std::ptrdiff_t>(random_() % list.size()));
  }
  bool is_floating() const { return type_ == DType::kF32 || type_ == DType::kF64; }

  void leaves(Var i, Var j) {
    pool_.push_back(x0_(i, j));
    pool_.push_back(x1_(i, j));
    pool_.push_back(row_(j));
    pool_.push_back(x1_(i, j).guarded(flag_(j)));
    pool_.push_back(constant(type_, pick({-1.0, 0.0, 0.5, 2.0, 3.0, 100.0})));
    pool_.push_back(cast(type_, loop_var(j)));
  }
  Expr leaf() { return pool_[random_() % pool_.size()]; }

  Expr condition(const Expr& a, const Expr& b) {
    if (is_floating() && random_() % 6 == 0)
      return bit_or(make_unary(pick({Op::kIsNan, Op::kIsInf}), a), lt(a, b));
    const Expr c = make_binary(pick({Op::kEq, Op::kNe, Op::kLt, Op::kLe, Op::kGt, Op::kGe}), a, b);
    return random_() % 4 == 0 ? bit_not(c) : c;
  }

  Expr expression(int depth) {
    if (depth == 0) return leaf();
    const Expr a = expression(depth - 1), b = random_() % 2 ? leaf() : expression(depth - 1);
    if (random_() % 8 == 0) return select(condition(a, b), a, leaf());
    if (random_() % 12 == 0) return cast(type_, cast(other_type(), a));
    if (is_floating()) {
      switch (random_() % 5) {
        case 0:
          return make_unary(pick({Op::kNeg, Op::kAbs, Op::kFloor, Op::kCeil, Op::kRound, Op::kTrunc,
                                  Op::kSqrt, Op::kSign}),
                            a);
        case 1:
          if (random_() % 8 == 0) return exp_normal(-abs(a));  // of numbers to 0
          return make_unary(
              pick({Op::kExp, Op::kExp2, Op::kExpm1, Op::kLog, Op::kLog1p, Op::kTanh, Op::kErf,
                    Op::kSigmoid, Op::kSin, Op::kCos, Op::kRsqrt, Op::kReciprocal}),
              a);
        case 2:
          if (type_ == DType::kF32 && random_() % 3 == 0)
            return make_unary(pick({Op::kRoundF16, Op::kRoundBf16}), a);
          return random_() % 4 ? fma(a, b, leaf()) : pow(a, b);
        default:
          return make_binary(pick({Op::kAdd, Op::kSub, Op::kMul, Op::kDiv, Op::kMin, Op::kMax}), a,
                             b);
      }
    }
    switch (random_() % 4) {
      case 0:
        return make_unary(pick({Op::kNeg, Op::kAbs, Op::kNot, Op::kSign}), a);
      case 1:
        return make_binary(pick({Op::kDiv, Op::kMod, Op::kRem, Op::kShl, Op::kShr}), a, b);
      default:
        return make_binary(
            pick({Op::kAdd, Op::kSub, Op::kMul, Op::kMin, Op::kMax, Op::kAnd, Op::kOr, Op::kXor}),
            a, b);
    }
  }
  DType other_type() {
    return pick({DType::kF32, DType::kF64, DType::kI8, DType::kU8, DType::kI32, DType::kU32,
                 DType::kI64, DType::kU64, DType::kI16, DType::kBool});
  }

  std::mt19937_64 random_;
  KernelBuilder b_;
  DType type_ = DType::kF32;
  Buffer x0_, x1_, row_, column_, flag_;
  std::vector<Expr> pool_;
};

}  // namespace

Kernel random_kernel(uint64_t seed, bool rows) {
  return RandomKernel(seed).build(rows);
}

}  // namespace xc::test
