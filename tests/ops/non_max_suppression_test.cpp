// NonMaxSuppression against every pair of boxes compared.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "support/sessions.h"

namespace xc::test {

namespace {

struct Scene {
  int64_t batches, classes, boxes;
  double size;        ///< of the largest box; they lie in the unit square
  int64_t steps;      ///< corners lie on a grid of so many, where edges touch; 0: anywhere
  bool centred, odd;  ///< odd: NaN and infinities among the numbers
  int64_t most;
  float iou, score;
};

Tensor boxes_of(const Scene& scene, std::mt19937& random) {
  const auto number = [&] {
    double v = static_cast<double>(random() % 100000) / 100000;
    if (scene.steps > 0)
      v = std::round(v * static_cast<double>(scene.steps)) / static_cast<double>(scene.steps);
    return v;
  };
  Tensor out(DType::kF32, {scene.batches, scene.boxes, 4});
  for (int64_t i = 0; i < scene.batches * scene.boxes; ++i) {
    float* box = out.as<float>() + 4 * i;
    const double y = number(), x = number(), h = number() * scene.size, w = number() * scene.size;
    const double corners[] = {y, x, y + h, x + w}, centre[] = {x, y, w, h};
    for (int k = 0; k < 4; ++k) box[k] = static_cast<float>(scene.centred ? centre[k] : corners[k]);
    if (!scene.centred && random() % 4 == 0) std::swap(box[0], box[2]);
    if (scene.odd && random() % 20 == 0)
      box[random() % 4] = random() % 2 ? std::nanf("") : std::numeric_limits<float>::infinity();
  }
  return out;
}

Tensor scores_of(const Scene& scene, std::mt19937& random) {
  Tensor out(DType::kF32, {scene.batches, scene.classes, scene.boxes});
  for (int64_t i = 0; i < out.count(); ++i) {
    float& score = out.as<float>()[i];
    score = static_cast<float>(random() % 200) / 200;  // some are equal
    if (scene.odd && random() % 20 == 0) score = std::nanf("");
  }
  return out;
}

std::vector<int64_t> selected(const Scene& scene, const Tensor& boxes, const Tensor& scores) {
  struct Box {
    double y0, x0, y1, x1;
  };
  std::vector<int64_t> out;
  for (int64_t b = 0; b < scene.batches; ++b)
    for (int64_t c = 0; c < scene.classes; ++c) {
      const float* score = scores.as<float>() + (b * scene.classes + c) * scene.boxes;
      const auto box_of = [&](int64_t i) {
        const float* v = boxes.as<float>() + (b * scene.boxes + i) * 4;
        const double d[] = {v[0], v[1], v[2], v[3]};
        if (scene.centred)
          return Box{d[1] - d[3] / 2, d[0] - d[2] / 2, d[1] + d[3] / 2, d[0] + d[2] / 2};
        return Box{std::min(d[0], d[2]), std::min(d[1], d[3]), std::max(d[0], d[2]),
                   std::max(d[1], d[3])};
      };
      std::vector<int64_t> order;
      for (int64_t i = 0; i < scene.boxes; ++i)
        if (score[i] > scene.score) order.push_back(i);
      std::stable_sort(order.begin(), order.end(),
                       [&](int64_t i, int64_t k) { return score[i] > score[k]; });
      std::vector<Box> kept;
      for (int64_t i : order) {
        if (std::ssize(kept) >= scene.most) break;
        const Box a = box_of(i);
        const auto suppresses = [&](const Box& other) {
          const double h = std::min(a.y1, other.y1) - std::max(a.y0, other.y0);
          const double w = std::min(a.x1, other.x1) - std::max(a.x0, other.x0);
          const double one = (a.y1 - a.y0) * (a.x1 - a.x0),
                       two = (other.y1 - other.y0) * (other.x1 - other.x0);
          return h > 0 && w > 0 && one > 0 && two > 0 && h * w / (one + two - h * w) > scene.iou;
        };
        if (std::any_of(kept.begin(), kept.end(), suppresses)) continue;
        kept.push_back(a);
        out.insert(out.end(), {b, c, i});
      }
    }
  return out;
}

}  // namespace

TEST_CASE("ops/non_max_suppression: as every pair of boxes compared, in strips and without") {
  std::mt19937 random(9);
  for (const Scene& scene : {Scene{2, 3, 50, 0.3, 0, false, false, 20, 0.5f, 0.2f},
                             Scene{1, 4, 1000, 0.05, 0, false, false, 1000, 0.5f, 0.2f},
                             Scene{2, 3, 800, 0.02, 0, true, false, 800, 0.1f, 0.0f},
                             Scene{1, 2, 700, 0.3, 40, false, false, 700, 0.0f, 0.1f},
                             Scene{1, 2, 700, 0.3, 40, true, false, 700, 0.3f, 0.1f},
                             Scene{2, 3, 600, 0.1, 0, false, true, 600, 0.3f, 0.1f},
                             Scene{1, 2, 600, 0.1, 0, true, true, 600, 0.3f, 0.1f},
                             Scene{1, 2, 500, 5.0, 0, false, false, 500, 0.99f, 0.0f},
                             Scene{1, 2, 0, 0.1, 0, false, false, 10, 0.5f, 0.0f}}) {
    CAPTURE(scene.boxes);
    CAPTURE(scene.steps);
    CAPTURE(scene.centred);
    CAPTURE(scene.odd);
    const Tensor boxes = boxes_of(scene, random), scores = scores_of(scene, random);
    const auto session = testing::session_of(
        fmt::format("graph g(%b: f32[n, m, 4], %s: f32[n, c, m], %k: i64[1], %i: f32[1], "
                    "%t: f32[1]) -> (%y) {{\n"
                    "  %y = NonMaxSuppression(%b, %s, %k, %i, %t) {{center_point_box={}}}\n}}",
                    scene.centred ? 1 : 0),
        {});
    const auto got =
        testing::run(*session, {boxes, scores, Tensor::of<int64_t>({scene.most}),
                                Tensor::of<float>({scene.iou}), Tensor::of<float>({scene.score})});
    CHECK(got[0].to_int64s() == selected(scene, boxes, scores));
  }
}

}  // namespace xc::test
