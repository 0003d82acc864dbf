#include "tier/shared_code.h"

#include <doctest/doctest.h>

#include "base/error.h"

using namespace xc;
using namespace xc::tier;

namespace {

struct Nothing final : Kernel {
  std::shared_ptr<const BoundKernel> bind(const BindContext&) const override { return nullptr; }
};

}  // namespace

TEST_CASE("tier/shared_code: a kernel is shared for as long as some program has it") {
  SharedCode code;
  const Hash128 region = hash_text("a"), other = hash_text("b");
  auto kernel = std::make_shared<Nothing>();
  CHECK(code.find(region) == nullptr);
  code.share(region, kernel);
  CHECK(code.find(region) == kernel);
  CHECK(code.find(other) == nullptr);
  kernel.reset();
  CHECK(code.find(region) == nullptr);
}

TEST_CASE("tier/shared_code: what was found wrong is given to no program any more") {
  SharedCode code;
  const Hash128 region = hash_text("a"), other = hash_text("b");
  const auto kernel = std::make_shared<Nothing>();
  code.share(region, kernel);
  code.share(other, kernel);
  CHECK(!code.condemned(region));
  code.condemn(region, "first");
  code.condemn(region, "second");
  CHECK(code.is_condemned(region));
  CHECK(code.condemned(region) == "first");
  CHECK_THROWS_AS(code.find(region), Error);
  CHECK(!code.is_condemned(other));
  CHECK(code.find(other) == kernel);
}
