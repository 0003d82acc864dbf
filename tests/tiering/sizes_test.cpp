// One kernel, many sizes: what is decided at one size does not hold at another, and regions behind
// sizes that a run finds out are compiled like others.
#include <map>

#include "support.h"

using namespace xc;
using namespace xc::testing;

namespace {

std::vector<Tensor> rows(int64_t n) {
  return {ramp({n, 96}, 3, 0.1), ramp({96}, 1, 0.7)};
}

}  // namespace

TEST_CASE(
    "tiering/sizes: a kernel that wins on long inputs and loses on short ones serves the long") {
  // Planted: below 100 rows the kernel takes far longer than what it replaces.
  constexpr int64_t kShort = 4, kLong = 512;
  std::array<std::atomic<int64_t>, 2> fused{};  // runs of the kernel, short and long
  TierFaults faults;
  faults.wrap = [&](const Region& region,
                    std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
    return std::make_shared<Tampered>(
        std::move(kernel),
        [&](int64_t n) {
          ++fused[n >= 100];
          if (n < 100) spin_us(400);
        },
        region.inputs.size(), 0.0f);
  };
  for (const bool short_first : {true, false}) {
    CAPTURE(short_first);
    Fixture fixture(kGelu, {}, faults);
    const auto run = [&](int64_t n) {
      int64_t where = 0;
      const std::vector<Tensor> in = rows(n);
      REQUIRE(gelu_right(in, fixture.run(in)[0], where));
    };
    for (int64_t n : {short_first ? kShort : kLong, short_first ? kLong : kShort})
      for (int k = 0; k < 1500; ++k) {
        run(n);
        if (k % 16 == 0) fixture.session->wait_idle(std::chrono::milliseconds(1000));
      }
    fixture.session->freeze();  // a second look at short inputs, after its back-off, is over too
    fused[0] = fused[1] = 0;
    for (int k = 0; k < 64; ++k) {
      run(kShort);
      run(kLong);
    }
    CHECK(fused[0] == 0);
    CHECK(fused[1] == 64);
    CHECK(fixture.log.count(EventKind::kAccepted) >= 1);
    // New signatures of either kind go with their like at once.
    fused[0] = fused[1] = 0;
    for (int64_t n : {3, 5, 400, 600}) run(n);
    CHECK(fused[0] == 0);
    CHECK(fused[1] == 2);
  }
}

TEST_CASE("tiering/sizes: a region behind data-dependent sizes is compiled and used") {
  Fixture fixture(gelu_of_picked("  %some = Compress(%x, %take) {axis = 0}\n"), {});
  const std::vector<Tensor> all = rows(512);
  for (int k = 0; k < 6000 && fixture.log.count(EventKind::kAccepted) == 0; ++k) {
    // The mask keeps a run of rows, so that the kept part is a plain slice to compare with.
    const int64_t keep = 200 + k % 7 * 40;
    Tensor take(DType::kBool, {512});
    for (int64_t i = 0; i < 512; ++i) take.as<bool>()[i] = i < keep;
    const Tensor y = fixture.run({all[0], all[1], take})[0];
    REQUIRE(y.dims() == Dims{keep, 96});
    int64_t where = 0;
    REQUIRE(gelu_right(all, y, where));
    if (k % 16 == 0) fixture.session->wait_idle(std::chrono::milliseconds(1000));
  }
  CHECK(fixture.log.count(EventKind::kAccepted) == 1);
}
