// Convolutions and pools that run band by band give the bits of those that run one after another.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "base/cpu_info.h"
#include "conv_network.h"
#include "runtime/engine.h"
#include "support.h"

namespace {

using namespace xc;
using namespace xc::testing;

/// Random convolutions behind each other, as text, with the batch a symbol.
class ConvChain {
 public:
  explicit ConvChain(uint64_t seed) : random_(seed) {
    channels_ = input_channels_ = 2 + pick(30);
    rows_ = input_rows_ = 6 + pick(30);
    cols_ = input_cols_ = 6 + pick(30);
    for (int64_t left = 2 + pick(4); left > 0; --left) grow();
    if (pick(2) == 0) tail();
  }
  std::string text() const {
    return fmt::format("graph net(%x: f32[n, {}, {}, {}]) -> (%{}) {{\n{}}}\n", input_channels_,
                       input_rows_, input_cols_, last_, body_);
  }
  Dims input(int64_t batch) const { return {batch, input_channels_, input_rows_, input_cols_}; }

 private:
  int64_t pick(int64_t below) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(below));
  }
  std::string next_name() { return "v" + std::to_string(count_++); }
  std::string line(const std::string& op, const std::string& inputs, const std::string& attrs) {
    const std::string name = next_name();
    body_ += fmt::format("  %{} = {}({}) {}\n", name, op, inputs, attrs);
    return name;
  }
  std::string constant(const Dims& dims) {
    const std::string name = next_name();
    std::string values;
    for (int64_t k = 0; k < element_count(dims); ++k)
      values += fmt::format("{}{:.3f}", k ? ", " : "",
                            std::sin(static_cast<double>(k * 7 + count_)) * 0.3);
    body_ += fmt::format("  const %{}: f32{} = [{}]\n", name, to_text(dims), values);
    return name;
  }

  void pool() {
    if (rows_ < 4 || cols_ < 4) return;
    const int64_t stride = 1 + pick(2), top = pick(2);
    last_ = line(pick(2) ? "MaxPool" : "AveragePool", "%" + last_,
                 fmt::format("{{kernel_shape = [3, 2], strides = [{}, 2], pads = [{}, 0, 1, 0]}}",
                             stride, top));
    rows_ = (rows_ + top + 1 - 3) / stride + 1;
    cols_ = (cols_ - 2) / 2 + 1;
  }
  void grow() {
    if (pick(5) == 0) return pool();
    const int64_t kernel = 1 + 2 * pick(3), stride = 1 + (pick(3) == 0),
                  dilation = 1 + (pick(4) == 0);
    const int64_t extent = (kernel - 1) * dilation + 1;
    // Now and then rows are padding alone.
    const int64_t more = pick(6) == 0 ? 2 : 0;
    const int64_t top = pick(extent + more), bottom = pick(extent + more), side = extent / 2;
    const auto size = [&](int64_t in, int64_t before, int64_t behind) {
      return (in + before + behind - extent) / stride + 1;
    };
    if (rows_ + top + bottom < extent || cols_ + 2 * side < extent) return;
    const int64_t rows = size(rows_, top, bottom), cols = size(cols_, side, side);
    if (rows < 2 || cols < 2) return;
    int64_t groups = 1, out = 1 + pick(40);
    if (pick(3) == 0) {
      groups = out = channels_;  // depthwise
    } else if (channels_ % 4 == 0 && pick(3) == 0) {
      groups = channels_ / 4;
      out = channels_;
    }
    std::string inputs = "%" + last_ + ", %" + constant({out, channels_ / groups, kernel, kernel});
    if (pick(2) == 0) inputs += ", %" + constant({out});
    std::string made =
        line("Conv", inputs,
             fmt::format("{{group = {}, kernel_shape = [{}, {}], strides = [{}, {}], dilations = "
                         "[{}, {}], pads = [{}, {}, {}, {}]}}",
                         groups, kernel, kernel, stride, stride, dilation, dilation, top, side,
                         bottom, side));
    // What the convolution reads stays for later: a chain may begin here, none goes through.
    if (out == channels_ && rows == rows_ && cols == cols_ && pick(4) == 0)
      made = line("Add", "%" + made + ", %" + last_, "");
    switch (pick(5)) {
      case 0:
        made = line("Relu", "%" + made, "");
        break;
      case 1:
        made = line("Clip", "%" + made + ", %" + scalar(-0.2) + ", %" + scalar(0.6), "");
        break;
      case 2:
        made = line("Sigmoid", "%" + made, "");
        break;
      case 3:
        made = line("HardSwish", "%" + made, "");
        break;
      default:
        break;
    }
    last_ = made;
    channels_ = out;
    rows_ = rows;
    cols_ = cols;
  }
  std::string scalar(double value) {
    const std::string name = next_name();
    body_ += fmt::format("  const %{}: f32[] = {}\n", name, value);
    return name;
  }
  /// What reads the last one's result where it lies, channels-last.
  void tail() { last_ = line("MaxPool", "%" + last_, "{kernel_shape = [2, 2], strides = [1, 1]}"); }

  std::mt19937_64 random_;
  int64_t channels_, rows_, cols_, input_channels_, input_rows_, input_cols_;
  int count_ = 0;
  std::string body_, last_ = "x";
};

Config off_mode(int64_t bands, int64_t threads = 1) {
  Config config;
  config.set_jit(JitMode::kOff);
  config.bands = bands;
  config.threads = threads;
  return config;
}

/// Of all signatures a session has run.
uint32_t steps_in_bands(Session& session) {
  uint32_t out = 0;
  for (const auto& entry : session.program().entries())
    for (const BoundStep& step : session.program().published(*entry)->active->bound->steps)
      if (step.count > 1) out += step.count;
  return out;
}

/// With all the time that takes, as bands are: what stands in for want of it has bits of its own.
void settle(Session& session) {
  for (const auto& entry : session.program().entries()) session.program().settle(*entry);
}

bool same(const Tensor& a, const Tensor& b) {
  return a.dims() == b.dims() &&
         std::memcmp(a.data(), b.data(), static_cast<size_t>(a.count()) * 4) == 0;
}

}  // namespace

TEST_CASE("tiering/bands: chains of convolutions give the same bits") {
  int banded = 0, longer = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const ConvChain chain(seed);
    CAPTURE(seed);
    CAPTURE(chain.text());
    Config reference = off_mode(1);
    reference.kernels = 1;
    Config whole = off_mode(1);
    whole.winograd = static_cast<int64_t>(seed % 2);
    const auto oracle = session_of(chain.text(), reference), base = session_of(chain.text(), whole);
    std::vector<std::shared_ptr<Session>> others;
    for (int64_t threads : {1, 2, 5}) {
      Config config = off_mode(2, threads);
      config.winograd = whole.winograd;
      others.push_back(session_of(chain.text(), config));
    }
    for (int64_t batch : {1, 3}) {
      const std::vector<Tensor> in{ramp(chain.input(batch), 1.0, 0.1 * static_cast<double>(seed))};
      const std::vector<double> exact = run(*oracle, in)[0].to_doubles();
      const auto check_near = [&](const std::vector<double>& have) {
        REQUIRE(have.size() == exact.size());
        double largest = 1e-3, worst = 0;
        for (size_t i = 0; i < exact.size(); ++i) {
          largest = std::max(largest, std::fabs(exact[i]));
          worst = std::max(worst, std::fabs(exact[i] - have[i]));
        }
        CHECK(worst <= 1e-4 * largest);
      };
      check_near(run(*base, in)[0].to_doubles());
      settle(*base);
      const Tensor want = run(*base, in)[0];
      check_near(want.to_doubles());
      for (const auto& other : others) {
        (void)run(*other, in);
        settle(*other);
        CHECK(same(run(*other, in)[0], want));
        CHECK(same(run(*other, in)[0], want));  // memory of the run before
      }
    }
    const uint32_t steps = steps_in_bands(*others[0]);
    banded += steps > 0;
    longer += steps > 4;  // of two signatures
  }
  CHECK(banded > 60);
  CHECK(longer > 20);
}

TEST_CASE("tiering/bands: rows of padding alone at the edge of a band") {
  // As SqueezeNet 1.0 ends: 1x1 with padding, whose last band of two rows has one, of zeros.
  const std::string text =
      "graph net(%x: f32[n, 8, 9, 9]) -> (%y) {\n"
      "  const %a: f32[32, 8, 3, 3] = splat 0.1\n"
      "  const %b: f32[24, 32, 1, 1] = splat 0.2\n"
      "  const %c: f32[24] = splat 0.3\n"
      "  %d = Conv(%x, %a) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}\n"
      "  %e = Relu(%d)\n"
      "  %y = Conv(%e, %b, %c) {kernel_shape = [1, 1], pads = [1, 1, 1, 1]}\n}\n";
  Config bands = off_mode(2), whole = off_mode(1);
  bands.winograd = whole.winograd = 1;
  const auto session = session_of(text, bands), base = session_of(text, whole);
  const std::vector<Tensor> in{ramp({2, 8, 9, 9}, 1.0, 0.3)};
  CHECK(same(run(*session, in)[0], run(*base, in)[0]));
}

TEST_CASE("tiering/bands: sizes that come again get them where they pay") {
  // A result of 64 rows, four times the second-level cache, between two cheap convolutions.
  const int64_t channels = cpu_info().l2_bytes * 4 / (64 * 64 * 4);
  const std::string text = fmt::format(
      "graph net(%x: f32[n, 4, 64, 64]) -> (%y) {{\n"
      "  const %a: f32[{0}, 4, 1, 1] = splat 0.1\n"
      "  const %b: f32[{0}, 1, 3, 3] = splat 0.2\n"
      "  const %c: f32[4, {0}, 1, 1] = splat 0.01\n"
      "  %e = Conv(%x, %a)\n"
      "  %f = Relu(%e)\n"
      "  %d = Conv(%f, %b) {{group = {0}, kernel_shape = [3, 3], pads = [1, 1, 1, 1]}}\n"
      "  %p = Conv(%d, %c)\n"
      "  %y = Add(%p, %x)\n}}\n",
      channels);
  const auto session = session_of(text, off_mode(0)), off = session_of(text, off_mode(1));
  const std::vector<Tensor> in{ramp({1, 4, 64, 64}, 1.0, 0.3)};
  const Tensor want = run(*off, in)[0];
  CHECK(same(run(*session, in)[0], want));
  const auto arena = [](Session& s) {
    const auto entries = s.program().entries();
    return s.program().published(*entries.at(0))->active->bound->arena_bytes;
  };
  CHECK(steps_in_bands(*session) == 0);  // the first run is not kept waiting
  const int64_t before = arena(*session);
  for (int k = 0; k < 200; ++k) run(*session, in);
  CHECK(steps_in_bands(*session) == 3);
  CHECK(arena(*session) < before / 4);  // what is handed on is not there any more
  CHECK(same(run(*session, in)[0], want));
  for (int k = 0; k < 200; ++k) run(*off, in);
  CHECK(steps_in_bands(*off) == 0);
}
