// Methods: argument reduction with the constant split in parts (Cody and Waite), then polynomials
// and rationals fitted for least maximum relative error (Lawson's weighted least squares on
// Chebyshev nodes, 50 digits; fit errors noted at the coefficients).
#include "loop/math.h"

#include <array>
#include <cmath>

#include "base/error.h"
#include "loop/range.h"

namespace xc::loop {

namespace {

using Coefficients = std::initializer_list<double>;  // constant term first

constexpr double kQuick = 4096;  // ULP of f32: 2^-11 of the value
constexpr std::array kBounds = {
    // default f32, f64; strict f32; fast f32
    MathBound{Op::kRsqrt, 1.5, 1.5, 0.51, 1.5},
    MathBound{Op::kReciprocal, 0.5, 0.5, 0.5, 0.5},
    MathBound{Op::kExp, 2, 2, 0.51, kQuick},
    MathBound{Op::kLog, 2, 2, 0.51, kQuick},
    MathBound{Op::kExpNormal, 2, 2, 0.51, kQuick},
    MathBound{Op::kExp2, 2, 2, 0.51, kQuick},
    MathBound{Op::kExpm1, 2, 3, 0.51, kQuick},
    MathBound{Op::kLog1p, 2, 2, 0.51, kQuick},
    MathBound{Op::kTanh, 3, 4, 0.51, kQuick},
    MathBound{Op::kErf, 2, 4, 0.51, kQuick},
    MathBound{Op::kSigmoid, 4, 4, 0.51, kQuick},
    MathBound{Op::kOnePlusTanh, 4, 4, 0.51, kQuick},
    MathBound{Op::kOnePlusErf, 56, 4, 0.52, kQuick},
    MathBound{Op::kSin, 2, 2, 0.51, 2},
    MathBound{Op::kCos, 2, 2, 0.51, 2},
    MathBound{Op::kPow, 2.5, 1024, 1, 2.5},
};

// Expression helpers bound to one type, level and tier.
class Expander {
 public:
  Expander(DType type, MathLevel level, Accuracy accuracy = Accuracy::kDefault)
      : type_(type), level_(level), accuracy_(accuracy) {}

  Expr node(const Expr& e) const {
    const Expr& x = e->args[0];
    // These are 0 from a place on that goes by the type, also where they are computed in another.
    if (e->op == Op::kExpNormal) return exp_normal(x);
    if (e->op == Op::kOnePlusErf) return one_plus_erf(x);
    if (strict() && rounds_more_than_once(e->op))
      return cast(type_, wide().node(make_unary(e->op, cast(DType::kF64, x))));
    switch (e->op) {
      case Op::kRsqrt:
        return c(1) / sqrt(x);
      case Op::kReciprocal:
        return c(1) / x;
      case Op::kExp:
        return exp(x);
      case Op::kExp2:
        return exp2(x);
      case Op::kExpm1:
        return expm1(x);
      case Op::kLog:
        return log(x);
      case Op::kLog1p:
        return log1p(x);
      case Op::kTanh:
        return quick() ? tanh_quick(x) : is_f32() ? tanh_f32(x) : tanh_f64(x);
      case Op::kErf:
        return quick() ? erf_quick(x) : is_f32() ? erf_f32(x) : erf_f64(x);
      case Op::kSigmoid:
        return over_one_plus_exp(1, -x);
      case Op::kOnePlusTanh:
        return over_one_plus_exp(2, times_minus_two(x));
      case Op::kSin:
        return sin_cos(x, 0);
      case Op::kCos:
        return sin_cos(x, 1);
      case Op::kPow:
        return pow(x, e->args[1]);
      default:
        return e;
    }
  }

 private:
  bool is_f32() const { return type_ == DType::kF32; }
  bool strict() const { return is_f32() && accuracy_ == Accuracy::kStrict; }
  bool quick() const { return is_f32() && accuracy_ == Accuracy::kFast; }
  Expander wide() const { return {DType::kF64, level_}; }
  /// pow of f32 is computed in f64 in every tier.
  static bool rounds_more_than_once(Op op) {
    return is_math(op) && op != Op::kReciprocal && op != Op::kPow;
  }
  DType bits_type() const { return is_f32() ? DType::kI32 : DType::kI64; }
  int mantissa_bits() const { return is_f32() ? 23 : 52; }
  int bias() const { return is_f32() ? 127 : 1023; }
  Expr c(double value) const { return constant(type_, value); }
  Expr n(int64_t value) const { return constant_int(bits_type(), value); }
  Expr bits(const Expr& x) const { return bitcast(bits_type(), x); }
  Expr value(const Expr& b) const { return bitcast(type_, b); }
  Expr mad(const Expr& a, const Expr& b, const Expr& add) const {
    return uses_fma(level_) ? fma(a, b, add) : a * b + add;
  }
  Expr polynomial(const Expr& x, Coefficients coefficients) const {
    Expr sum;
    for (const double* at = coefficients.end(); at != coefficients.begin();) {
      --at;
      sum = sum ? mad(sum, x, c(*at)) : c(*at);
    }
    return sum;
  }
  // min and max with a constant first: one instruction, and NaN in x stays.
  Expr clamp(const Expr& x, double low, double high) const { return min(c(high), max(c(low), x)); }
  // ln2 in two parts; the first is short enough for k * part to be exact for every exponent k.
  double ln2_high() const { return is_f32() ? 0x1.62ep-1 : 0x1.62e42fefa2p-1; }
  double ln2_low() const { return is_f32() ? 0x1.0bfbe8e7bcd5ep-15 : 0x1.9ef35793c7673p-41; }
  Expr with_sign_of(const Expr& magnitude, const Expr& x) const {
    const Expr sign = n(is_f32() ? INT64_C(-0x80000000) : INT64_MIN);
    return value(bit_or(bits(magnitude), bit_and(bits(x), sign)));
  }

  // x = k ln2 + r, |r| <= ln2 / 2; e^x = 2^k (1 + r + r^2 q(r)). Adding 1.5 * 2^mantissa rounds to
  // an integer and leaves it in the low bits. The factor 2^k goes in two halves so that denormal
  // results and overflow round once.
  // 0 is selected, not computed: a product that underflows is slow on many processors.
  Expr exp(const Expr& argument) const {
    const Expr vanishes = lt(argument, c(is_f32() ? -103.9722 : -745.1333));
    const Expr x = min(c(is_f32() ? 89.0 : 710.5), select(vanishes, c(0), argument));
    const auto [k, r] = reduce_by_ln2(x);
    return select(vanishes, c(0), scale(exp_near_0(r), k));
  }
  // What a masked softmax is full of is selected too, from a result that is normal where a denormal
  // one would be slow. With one use of the comparison, the select costs no instruction where those
  // take masks.
  Expr exp_normal(const Expr& x) const {
    const Expr least = c(least_normal_power(type_));
    const Expr bounded = level_ == MathLevel::kFmaMasked ? x : max(least, x);
    const Expr result =
        strict() ? cast(type_, wide().exp(cast(DType::kF64, x))) : exp_bounded(bounded);
    return select(lt(x, least), c(0), result);
  }
  // 2^x = 2^k e^(r ln2) with k the nearest integer: exact up to the product r ln2.
  Expr exp2(const Expr& argument) const {
    const bool f32 = is_f32();
    const Expr vanishes = lt(argument, c(f32 ? -150.0 : -1075.0));
    const Expr x = min(c(f32 ? 129.0 : 1025.0), select(vanishes, c(0), argument));
    const Expr k = round_to_integer(x);
    const Expr r = (x - k) * c(0x1.62e42fefa39efp-1);
    return select(vanishes, c(0), scale(exp_near_0(r), k));
  }
  // e^x - 1 = 2 (s t + (s - 1/2)), s = 2^(k-1), t = e^r - 1: for k = 0 that is t, which keeps the
  // digits of small x; the factor 2 comes last, so that only a result that is too large overflows.
  Expr expm1(const Expr& argument) const {
    const bool f32 = is_f32();
    // Below, the result rounds to -1.
    const Expr x = clamp(argument, f32 ? -18.0 : -38.0, f32 ? 88.9 : 709.9);
    const auto [k, r] = reduce_by_ln2(x);
    const Expr s = scale(c(0.5), k);
    const Expr result = c(2) * mad(s, exp_tail(r), s - c(0.5));
    // -0 stays, and no half of a denormal number rounds.
    return select(lt(abs(argument), c(f32 ? 0x1p-30 : 0x1p-60)), argument, result);
  }
  Expr round_to_integer(const Expr& x) const {
    const Expr magic = c(is_f32() ? 0x1.8p23 : 0x1.8p52);
    return (x + magic) - magic;
  }
  struct ByLn2 {
    Expr k, r;
  };
  ByLn2 reduce_by_ln2(const Expr& x) const {
    const Expr magic = c(is_f32() ? 0x1.8p23 : 0x1.8p52);
    const Expr shifted = mad(x, c(0x1.71547652b82fep+0), magic);
    const Expr k = shifted - magic;
    if (quick()) return {k, mad(k, c(-0x1.62e42fefa39efp-1), x)};
    return {k, mad(k, c(-ln2_low()), mad(k, c(-ln2_high()), x))};
  }
  // e^r = 1 + r (1 + r q(r)) for |r| <= ln2 / 2.
  Expr exp_near_0(const Expr& r) const { return mad(mad(exp_factor(r, false), r, c(1)), r, c(1)); }
  // e^r - 1 = r + r^2 q(r): its digits are the result's, near 0 too.
  Expr exp_tail(const Expr& r) const { return mad(r * r, exp_factor(r, true), r); }
  // q, for e^r or `alone` for e^r - 1.
  Expr exp_factor(const Expr& r, bool alone) const {
    return quick() && alone ? polynomial(r, {0.5000512049084666, 0.16753552160189164,
                                             0.0412775802047111})                 // 2^-15
           : quick()  ? polynomial(r, {0.5039427073051206, 0.16662804642058038})  // 2^-13 of e^r
           : is_f32() ? polynomial(r, {0.49999993047077840679, 0.16666520428275123759,
                                       0.041668486489599666865, 0.0083687355173360414523,
                                       0.0013809204007336771949})  // 2^-28.3
                      : polynomial(r, {0.50000000000000000441, 0.16666666666666683521,
                                       0.041666666666666093529, 0.0083333333333169636377,
                                       0.0013888888889115303449, 0.00019841269896566306928,
                                       0.000024801586928545417571, 2.755723466849846068e-6,
                                       2.7557579277129607599e-7, 2.5112107976118129745e-8,
                                       2.0827663517552306508e-9});  // 2^-64
  }

  // x = 2^k m, m in [sqrt(1/2), sqrt(2)).
  struct Split {
    Expr k, m;  // k as a float
  };
  Split split(const Expr& x) const {
    const bool f32 = is_f32();
    const Expr tiny = lt(x, c(f32 ? 0x1p-126 : 0x1p-1022));
    const Expr normal = select(tiny, x * c(f32 ? 0x1p23 : 0x1p52), x);
    // Moves the boundary between exponents to sqrt(1/2).
    const int64_t half_root = f32 ? 0x3f3504f3 : 0x3fe6a09e667f3bcd;
    const Expr offset = bits(normal) - n(half_root);
    const Expr k = shr(offset, n(mantissa_bits()));
    const Expr m = value(bits(normal) - shl(k, n(mantissa_bits())));
    return {cast(type_, k) - select(tiny, c(f32 ? 23 : 52), c(0)), m};
  }
  Expr log_specials(const Expr& x, const Expr& result) const {
    const Expr infinite = select(eq(x, c(INFINITY)), x, result);
    const Expr zero = select(eq(x, c(0)), c(-INFINITY), infinite);
    return select(ge(x, c(0)), zero, c(NAN));
  }
  Expr log(const Expr& x) const { return log_specials(x, log_finite(x)); }
  // For finite x > 0.
  Expr log_finite(const Expr& x) const {
    const auto [k, m] = split(x);
    return log_of(k, m - c(1));
  }
  // u = 1 + x rounds; what it loses, scaled like the rest of u, goes back into f. For k = 0 that
  // makes f = x exactly.
  Expr log1p(const Expr& x) const {
    const Expr u = x + c(1);
    const auto [k, m] = split(u);
    const Expr lost = select(lt(x, c(1)), x - (u - c(1)), c(1) - (u - x));
    const Expr result = log_of(k, (m - c(1)) + scale(lost, -k));
    const Expr infinite = select(eq(x, c(INFINITY)), x, result);
    const Expr pole = select(eq(x, c(-1)), c(-INFINITY), infinite);
    const Expr zero = select(eq(x, c(0)), x, pole);  // -0 stays
    return select(ge(x, c(-1)), zero, c(NAN));
  }
  // k ln2 + log(1 + f), 1 + f in [sqrt(1/2), sqrt(2)).
  Expr log_of(const Expr& k, const Expr& f) const {
    if (quick()) {  // log(1 + f) = f + f^2 P(f)
      const Expr p = polynomial(f, {-0.49953593874208774, 0.3357071937665529, -0.2699142507695337,
                                    0.17840614228718402});  // 2^-14
      return mad(k, c(0x1.62e42fefa39efp-1), mad(f * f, p, f));
    }
    if (is_f32()) {  // log(1 + f) = f - f^2/2 + f^3 P(f)
      const Expr p = polynomial(
          f, {0.33333313093008431727, -0.25000010548262069943, 0.20002091323362039521,
              -0.16667937041065701817, 0.1422000007147701327, -0.1240674260294945447,
              0.11886220112965447374, -0.11668625471216991314, 0.067425073346299036536});  // 2^-30
      const Expr f2 = f * f;
      const Expr tail = mad(k, c(ln2_low()), f2 * f * p);
      return mad(k, c(ln2_high()), f + mad(f2, c(-0.5), tail));
    }
    // log(1 + f) = f - f^2/2 + s (f^2/2 + R(s^2)), s = f / (2 + f), R(z) = z T(z)
    const Expr s = f / (f + c(2));
    const Expr z = s * s;
    const Expr t =
        z * polynomial(z, {0.66666666666666660973, 0.40000000000006255409, 0.2857142856908132933,
                           0.22222222647685417466, 0.18181775582366852339, 0.15387094801483692107,
                           0.13250019511807877676, 0.13252281912083986511});  // 2^-66
    const Expr half_square = c(0.5) * f * f;
    const Expr low = mad(k, c(ln2_low()), s * (half_square + t));
    return mad(k, c(ln2_high()), f - (half_square - low));
  }

  // x P(x^2) / Q(x^2).
  Expr odd_rational(const Expr& x, Coefficients p, Coefficients q) const {
    const Expr z = x * x;
    return x * polynomial(z, p) / polynomial(z, q);
  }
  // e^x for arguments whose results are normal, or infinite.
  Expr exp_bounded(const Expr& x) const {
    const auto [k, r] = reduce_by_ln2(x);
    return scale(exp_near_0(r), k);
  }
  // (e^2a - 1) / (e^2a - 1 + 2), a = |x|, where e^2a - 1 = s t + (s - 1) keeps its digits near 0: s
  // a power of two, t = e^r - 1.
  Expr tanh_f32(const Expr& x) const {
    const Expr a = abs(x);
    const auto [k, r] = reduce_by_ln2(min(c(18.2), a + a));
    const Expr s = scale(c(1), k);
    const Expr e = mad(s, exp_tail(r), s - c(1));
    return with_sign_of(e / (e + c(2)), x);
  }
  // 1 / d for 2^-100 < d < 2^100: its bits subtracted from a constant are within 5 %, and each step
  // of Newton squares the error.
  Expr reciprocal_quick(const Expr& d) const {
    Expr y = value(n(0x7ef31000) - bits(d));
    for (int step = 0; step < 2; ++step) y = y * mad(-d, y, c(2));
    return y;
  }
  // 1 / d for 1 <= d <= 2.
  Expr reciprocal_of_one_to_two(const Expr& d) const {
    const Expr y = polynomial(d, {2.1212118568379807, -1.4545450878363646, 0.32323220276717707});
    return y * mad(-d, y, c(2));  // 2^-13
  }
  // a P(a^2) / Q(a^2) below 4.55, 1 above.
  Expr tanh_quick(const Expr& x) const {
    const Expr a = abs(x), bounded = min(c(4.55), a), z = bounded * bounded;
    const Expr p = polynomial(z, {0.9999699449033759, 0.10377158894608507, 0.0007145468741960135});
    const Expr q = polynomial(z, {1.0, 0.43690543617712946, 0.013243813187925925});  // 2^-15
    const Expr below = bounded * p * reciprocal_quick(q);
    return with_sign_of(select(ge(a, c(4.55)), c(1), below), x);
  }
  // a P(a^2) below 2.6, 1 above.
  Expr erf_quick(const Expr& x) const {
    const Expr a = abs(x), z = a * a;
    const Expr p = polynomial(
        z, {1.1282317242378128, -0.3741660532613023, 0.10822918514308798, -0.02252504473507972,
            0.003109062837807261, -0.00024948217279751423, 8.671749708503956e-06});  // 2^-12.9
    return with_sign_of(select(ge(a, c(2.6)), c(1), a * p), x);
  }
  Expr tanh_f64(const Expr& x) const {
    const Expr a = abs(x), z = a * a;
    const Expr small =
        a + a * z *
                polynomial(z, {-0.33333333333333333333, -0.021422266726060138845,
                               -0.00024389470460197601214, -1.7498437653601464231e-8}) /
                polynomial(z, {1.0, 0.4642668001781804158, 0.024533642280316227961,
                               0.0002549692727703340622});  // 2^-68
    const Expr large = c(1) - c(2) / (exp(min(c(40), a + a)) + c(1));
    return with_sign_of(select(lt(a, c(0.55)), small, large), x);
  }
  // a + a P(a^2) for small a = |x|; 1 - e^-R(a) with R fitted to -log(erfc(a)).
  Expr erf_f32(const Expr& x) const {
    const Expr a = abs(x), z = a * a;
    const Expr p =
        polynomial(z, {0.12837916640811134579, -0.37612631612651426168, 0.11283664002731203507,
                       -0.0268577057857499083, 0.0051969543003916527109, -0.00080977309402987478547,
                       0.0000818521215678241208});  // 2^-30.6 for a <= 0.95
    const Expr small = mad(a, p, a);
    const Expr r = polynomial(
        min(c(4), a), {0.0002451773076447014333, 1.1274731172240299296, 0.63752005496256119411,
                       0.10363775923649767143, -0.022086465399884215533, 0.0030082591396211911621,
                       -0.00019239956203015168359});  // 2^-29.5 of the result for 0.95 <= a <= 4
    const Expr large = c(1) - exp_bounded(-r);
    return with_sign_of(select(lt(a, c(0.95)), small, large), x);
  }
  Expr erf_f64(const Expr& x) const {
    const Expr small = odd_rational(
        x,
        {1.1283791670955124705, 0.088361807701880240467, 0.038187746663211671135,
         -0.00015811791196968129898, 0.00011868025417294273029, -3.0791584440593264951e-6},
        {1.0, 0.41164194650039957612, 0.071056991482756683569, 0.0061908646273979628078,
         0.00023446918687881030629});  // 2^-53.3 for |x| <= 1
    const Expr a = min(c(6), abs(x));
    // erfc(a) e^(a^2) on [1, 6]
    const Expr scaled =
        polynomial(a, {0.99999999265467465273, 1.8443554489926874296, 1.6775848847301018737,
                       0.94481258664782439953, 0.35246129632925517861, 0.087119895487579249519,
                       0.013338658678262410135, 0.0010039354472054416046}) /
        polynomial(a, {1.0, 2.9727345356451353711, 4.0319570280303585233, 3.2739057046935974619,
                       1.7509626104213135076, 0.63654188193413379255, 0.15530574002974663523,
                       0.023642155879644564138, 0.0017794292665951670786});  // 2^-59
    const Expr large = c(1) - exp(-(a * a)) * scaled;
    return select(lt(abs(x), c(1)), small, with_sign_of(large, x));
  }

  // n / (1 + e^v), which keeps its digits for every v: the logistic function of -v, times n. From
  // the v on for which e^v is infinite it is 0, so results are normal numbers or less than 2^-125.
  Expr over_one_plus_exp(double n, const Expr& v) const {
    if (quick()) {  // a denominator of 1 to 2 needs no division
      const Expr e = exp(-abs(v));
      const Expr result = select(gt(v, c(0)), e, c(1)) * reciprocal_of_one_to_two(e + c(1));
      return n == 1 ? result : result * c(n);
    }
    const bool f32 = is_f32();
    const Expr bounded = clamp(v, f32 ? -18.0 : -38.0, f32 ? 89.0 : 710.5);
    return c(n) / (exp_bounded(bounded) + c(1));
  }
  // -2 x, in the factor that x has already.
  Expr times_minus_two(const Expr& x) const {
    if (x->op == Op::kMul)
      for (const int k : {0, 1})
        if (is_const(x->args[k])) return x->args[1 - k] * c(-2 * const_as_double(*x->args[k]));
    return x * c(-2);
  }
  Expr one_plus_erf(const Expr& x) const {
    const Expr sum = strict()   ? cast(type_, wide().one_plus_erf(cast(DType::kF64, x)))
                     : is_f32() ? one_plus_erf_f32(x)
                                : erf_f64(x) + c(1);
    return select(lt(x, c(least_one_plus_erf(type_))), c(0), sum);
  }
  // erfc(-x) = e^-R(|x|) where x < 0, else 2 minus that; R = a P(a) fitted to -log(erfc(a)).
  Expr one_plus_erf_f32(const Expr& x) const {
    const Expr a = min(c(-least_one_plus_erf(type_)), abs(x));
    const Expr p = polynomial(
        a, {1.1283820196230954308, 0.6365778418796920182, 0.1029791796230602315,
            -0.019612777590375417618, 0.00040353075312899946176, 0.0012803270027684896893,
            -0.00049093121900109804974, 0.000095919212546718702773, -0.000010170059906255140307,
            4.6257952632947470335e-7});  // 2^-24 of e^-R; less near 4, by 1 + R / 2
    const Expr tail = exp_bounded(-(a * p));
    return select(lt(x, c(0)), tail, c(2) - tail);
  }

  // Quadrant q of pi/2 and remainder r, |r| <= pi/4. For every f32 with fma; for |x| < 2^20
  // otherwise: beyond, digits fade, but the remainder stays within 1.
  struct Reduced {
    Expr q, r;  // q: i64 or the bits type, low bits valid
  };
  Reduced reduce(const Expr& x) const {
    const Expr magic = c(0x1.8p52);
    if (uses_fma(level_)) {
      // First multiples of numbers that are nearly multiples of 2 pi, exactly: 2^86 and 2^41, and
      // what they lack (found by continued fractions of 2^34 / 2 pi and 2^-10 / 2 pi).
      const Expr k1 = mad(x, c(0x1.10d6ea67bfffap-87), magic) - magic;
      const Expr x1 = mad(k1, c(-0x1.e0664dbedfec5p+86), x);
      const Expr k2 = mad(x1, c(0x1.f395f3821c216p-42), magic) - magic;
      const Expr x2 = mad(k2, c(-0x1.065c829d6873p+41), x1);
      const Expr rest = mad(k1, c(0x1.c0de77c1ccc58p-52), k2 * c(0x1.14e87fd83e16cp-54));
      const Expr shifted = mad(x2 - rest, c(0x1.45f306dc9c883p-1), magic);
      const Expr k = shifted - magic;
      const Expr r = mad(k, c(-0x1.1a62633145c07p-54), mad(k, c(-0x1.921fb54442d18p+0), x2)) - rest;
      return {bits(shifted), within_one(r)};
    }
    const Expr shifted = mad(x, c(0x1.45f306dc9c883p-1), magic);
    const Expr k = shifted - magic;
    const Expr first = x - k * c(0x1.921fb544p+0);
    const Expr r = (first - k * c(0x1.0b4611a6p-34)) - k * c(0x1.3198a2e037073p-69);
    return {bits(shifted), within_one(r)};
  }
  // NaN stays NaN.
  Expr within_one(const Expr& x) const { return min(c(1), max(c(-1), x)); }
  // sin for quadrant_offset 0, cos for 1.
  Expr sin_cos(const Expr& x, int quadrant_offset) const {
    if (is_f32()) {  // the reduction in f64, which f32 arguments and results fit with room
      const Expander wide(DType::kF64, level_);
      const auto [q, r] = wide.reduce(cast(DType::kF64, x));
      return select_quadrant(cast(DType::kI32, q) + i32(quadrant_offset), cast(DType::kF32, r));
    }
    const auto [q, r] = reduce(x);
    return select_quadrant(q + i64(quadrant_offset), r);
  }
  Expr select_quadrant(const Expr& q, const Expr& r) const {
    const Expr z = r * r;
    const bool f32 = is_f32();
    const Expr s = f32 ? polynomial(z, {-0.16666666640701060085, 0.0083333292821380286447,
                                        -0.00019839301613467920715, 2.7179929057708115724e-6})
                       : polynomial(z, {-0.1666666666666666664, 0.0083333333333333222186,
                                        -0.00019841269841254419329, 2.7557319213844916577e-6,
                                        -2.5052104819518168479e-8, 1.6058354664805322754e-10,
                                        -7.5780945324030747476e-13});
    const Expr t = f32 ? polynomial(z, {0.041666646564598569869, -0.001388734970090559722,
                                        0.000024436139085202773445})
                       : polynomial(z, {0.041666666666666666611, -0.0013888888888888873313,
                                        0.000024801587301570728872, -2.7557319215039390868e-7,
                                        2.0876754289245749478e-9, -1.1470284441255290241e-11,
                                        4.7377075381346275847e-14});
    const Expr sine = with_sign_of(mad(z * r, s, r), r);  // -0 + 0 is 0
    const Expr half = c(0.5) * z;
    const Expr lead = c(1) - half;
    const Expr cosine = lead + mad(z * z, t, (c(1) - lead) - half);
    const Expr one = constant_int(q.type(), 1), two = constant_int(q.type(), 2);
    const Expr chosen = select(eq(bit_and(q, one), one), cosine, sine);
    return select(eq(bit_and(q, two), two), -chosen, chosen);
  }

  Expr pow(const Expr& x, const Expr& y) const {
    if (is_const(y))
      if (Expr simple = constant_power(x, const_as_double(*y))) return simple;
    const Expr a = abs(x);
    Expr magnitude;
    if (is_f32()) {  // in f64: the product y log(x) needs the digits
      const Expr wide_log = wide().log(cast(DType::kF64, a));
      magnitude = cast(DType::kF32, wide().exp(cast(DType::kF64, y) * wide_log));
    } else {
      magnitude = exp(y * log(a));
    }
    magnitude = select(eq(a, c(1)), c(1), magnitude);
    const Expr whole = eq(trunc(y), y);
    const Expr half = y * c(0.5);
    const Expr odd = bit_and(whole, ne(trunc(half), half));
    const Expr sign = n(is_f32() ? INT64_C(-0x80000000) : INT64_MIN);
    const Expr negative = lt(bits(x), n(0));
    const Expr flipped = value(bit_xor(bits(magnitude), sign));
    Expr result = select(bit_and(negative, odd), flipped, magnitude);
    const Expr undefined = bit_and(bit_and(lt(x, c(0)), bit_not(whole)), ne(a, c(INFINITY)));
    result = select(undefined, c(NAN), result);
    result = select(bit_or(is_nan(x), is_nan(y)), c(NAN), result);
    return select(bit_or(eq(x, c(1)), eq(y, c(0))), c(1), result);
  }
  /// x^n by squares.
  Expr whole_power(Expr x, int n) const {
    Expr result;
    for (; n != 0; n >>= 1) {
      if (n & 1) result = result ? result * x : x;
      if (n > 1) x = x * x;
    }
    return result ? result : c(1);
  }
  Expr root(const Expr& x) const {  // pow(-0, 0.5) is +0 and pow(-inf, 0.5) is inf
    return select(eq(x, c(-INFINITY)), c(INFINITY), sqrt(x + c(0)));
  }
  /// Exponents that are multiples of a quarter, up to 16. In f32 what takes more than two roundings
  /// (three for 0.25 and 0.75) is computed in f64 and rounds once; nothing there overflows or
  /// vanishes that does not in f32.
  Expr constant_power(const Expr& x, double y) const {
    constexpr double kMost = 16;
    if (y == 0) return c(1);
    if (y == 1) return x;
    if (y == 2) return x * x;
    if (y == -1) return c(1) / x;
    if (y == 0.5) return root(x);
    if (std::abs(y) > kMost || 4 * y != std::trunc(4 * y)) return {};
    const bool short_enough = y == 3 || y == 4 || y == -0.5 || y == 0.25 || y == 0.75;
    if (is_f32() && (strict() || !short_enough))
      return cast(type_, wide().constant_power(cast(DType::kF64, x), y));
    const int n = static_cast<int>(std::abs(y));
    const int quarters = static_cast<int>(4 * std::abs(y)) % 4;
    // Negative powers are those of the reciprocal, which several of them share: what they multiply
    // by overflows for a denormal result. Reciprocals of the least numbers overflow, so powers
    // above -1, which do not, divide last.
    const Expr base = y < 0 && n != 0 ? c(1) / x : x;
    if (quarters == 0) return whole_power(base, n);
    const Expr half = root(base);
    const Expr part = quarters == 2 ? half : quarters == 1 ? root(half) : half * root(half);
    if (n != 0) return whole_power(abs(base), n) * part;
    return y < 0 ? c(1) / part : part;
  }

  DType type_;
  MathLevel level_;
  Accuracy accuracy_;
};

}  // namespace

std::span<const MathBound> math_bounds() {
  return kBounds;
}

namespace {

/// Whether a float is a number, and so far from the largest that none that is 2^20 times as large
/// overflows: sums and products of constants and of small integers, as bytes are dequantised.
bool is_far_from_overflow(const Expr& x) {
  const KnownRange range = known_range(x);
  return range.number && range.low > -0x1p80 && range.high < 0x1p80;
}

/// round(x / d) by a constant d of f32, without the division, which takes as long as a dozen of
/// what stands here. r is 1 / d, rounded; a quotient q that is less than its last bit off is made
/// x / d as the division rounds it by q - (q d - x) r, each rounded once (P. Markstein,
/// "Computation of elementary functions on the IBM RISC System/6000 processor", 1990), which keeps
/// the sign of a zero for d > 0. x r is as close where r is within a quarter of its last bit; else
/// it takes the step once before. No number comes out where x r is infinite or none: that does
/// then.
Expr rounded_quotient(const Expr& x, double d) {
  if (d < 0) return rounded_quotient(-x, -d);
  const auto c = [](double value) { return constant(DType::kF32, value); };
  const double r = 1.0f / static_cast<float>(d);
  const int steps = std::fabs(r * d - 1) <= 0x1p-25 ? 1 : 2;  // r d has 48 bits, of 53
  const Expr first = x * c(r);
  Expr q = first;
  for (int step = 0; step < steps; ++step) q = fma(fma(q, c(d), -x), c(-r), q);
  // 2^20 is the most that r is.
  return round(is_far_from_overflow(x) ? q : select(is_nan(q), first, q));
}

bool is_quotient_to_round(const Expr& e) {
  if (e->op != Op::kRound || e.type() != DType::kF32 || e->args[0]->op != Op::kDiv) return false;
  const Expr& d = e->args[0]->args[1];
  return is_const(d) && std::fabs(const_as_double(*d)) > 0x1p-20 &&
         std::fabs(const_as_double(*d)) < 0x1p20;
}

}  // namespace

Expr expand_math_node(const Expr& e, MathLevel level, Accuracy accuracy) {
  // Strict numerics want the last bit of large quotients too.
  if (uses_fma(level) && accuracy != Accuracy::kStrict && is_quotient_to_round(e))
    return rounded_quotient(e->args[0]->args[0], const_as_double(*e->args[0]->args[1]));
  if (e->op == Op::kFma && !uses_fma(level)) return e->args[0] * e->args[1] + e->args[2];
  return is_math(e->op) ? Expander(e.type(), level, accuracy).node(e) : e;
}

namespace {

// A dot product without fma is the sum of its products.
void sum_products(Kernel& kernel, Block& block) {
  for (Stmt& stmt : block) {
    if (auto* loop = std::get_if<For>(&stmt.node)) sum_products(kernel, loop->body);
    auto* feed = std::get_if<Accumulate>(&stmt.node);
    if (!feed || kernel.accs[feed->acc].op != AccOp::kDot) continue;
    kernel.accs[feed->acc].op = AccOp::kSum;
    feed->value = feed->value * feed->second;
    feed->second = {};
  }
}

/// 1 + tanh(x) and 1 + erf(x), as activations have them, take half of what tanh and erf take and
/// keep their digits where those are near -1.
Expr one_plus(const Expr& e) {
  if (e->op != Op::kAdd) return e;
  for (const int k : {0, 1}) {
    const Expr &function = e->args[k], &one = e->args[1 - k];
    if (!is_const(one) || !is_float(one.type()) || const_as_double(*one) != 1) continue;
    if (function->op == Op::kTanh) return make_unary(Op::kOnePlusTanh, function->args[0]);
    if (function->op == Op::kErf) return make_unary(Op::kOnePlusErf, function->args[0]);
  }
  return e;
}

}  // namespace

Kernel expand_math(Kernel kernel, MathLevel level) {
  kernel.body = rewrite_exprs(kernel.body, one_plus);
  kernel.body = rewrite_exprs(
      kernel.body, [&](const Expr& e) { return expand_math_node(e, level, kernel.accuracy); });
  if (!uses_fma(level)) sum_products(kernel, kernel.body);
  return kernel;
}

}  // namespace xc::loop
