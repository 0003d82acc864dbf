// Images read between their pixels, and slices that data pick, against the references.
#include <doctest/doctest.h>

#include "backends/step_harness.h"

namespace xc {
namespace {

using namespace test;
using Ints = std::vector<int64_t>;

TEST_CASE("backends/sampled: GridSample in any mode, padding and number of axes") {
  Generator g(81);
  for (const char* mode : {"linear", "cubic"})
    for (const char* padding : {"zeros", "border", "reflection"})
      for (int64_t align : {0, 1})
        for (const auto& [x, points] :
             std::vector<std::pair<Dims, Dims>>{{{2, 3, 7, 5}, {9, 11}},
                                                {{1, 2, 1, 1}, {3, 2}},
                                                {{1, 2, 9}, {70}},
                                                {{2, 1, 3, 4, 5}, {2, 3, 4}}}) {
          Problem p;
          p.op = &get_op("GridSample");
          p.attrs.set("mode", std::string(mode));
          p.attrs.set("padding_mode", std::string(padding));
          p.attrs.set("align_corners", align);
          Dims grid{x[0]};
          grid.insert(grid.end(), points.begin(), points.end());
          grid.push_back(static_cast<int64_t>(x.size()) - 2);
          Tensor points_at = g.tensor(DType::kF32, grid, -1.4, 1.4);
          if (points_at.count() > 3) {
            points_at.as<float>()[0] = NAN;
            points_at.as<float>()[2] = 1e30f;
          }
          Tensor wide = g.tensor(DType::kF64, grid, -1.4, 1.4);
          if (wide.count() > 3) {
            wide.as<double>()[1] = NAN;
            wide.as<double>()[2] = -1e300;
          }
          for (const Tensor& at : {points_at, wide}) {
            p.attrs.set("mode", std::string(mode));
            p.inputs = {g.tensor(DType::kF32, x), at};
            INFO(mode << padding << align << to_text(x) << name(at.dtype()));
            check_row("xc.sampled", p, {1e-5, 1e-5});
            p.attrs.set("mode", std::string("nearest"));
            for (DType type : {DType::kF32, DType::kF64, DType::kBF16, DType::kI64, DType::kBool}) {
              p.inputs[0] = g.tensor(type, x);
              check_row("xc.sampled", p, {});
            }
          }
        }
}

TEST_CASE("backends/sampled: a grid of halves is left to the reference") {
  Generator g(63);
  for (const DType type : {DType::kF16, DType::kBF16}) {
    Problem p;
    p.op = &get_op("GridSample");
    p.attrs.set("mode", std::string("nearest"));
    p.inputs = {g.tensor(type, {1, 2, 5, 5}), g.tensor(type, {1, 3, 3, 2}, -1, 1)};
    const Node node = node_of(p);
    CHECK_FALSE(find_row("xc.sampled", "GridSample").supports(spec_of(p, node, {})).yes());
    p.inputs[1] = g.tensor(DType::kF32, {1, 3, 3, 2}, -1, 1);
    check_row("xc.sampled", p, {});
  }
}

TEST_CASE("backends/sampled: RoiAlign, with few and with very many samples") {
  Generator g(82);
  for (const char* coordinates : {"half_pixel", "output_half_pixel"})
    for (int64_t ratio : {0, 1, 3}) {
      Problem p;
      p.op = &get_op("RoiAlign");
      p.attrs.set("coordinate_transformation_mode", std::string(coordinates));
      p.attrs.set("sampling_ratio", ratio);
      p.attrs.set("output_height", int64_t{3});
      p.attrs.set("output_width", int64_t{2});
      p.attrs.set("spatial_scale", 0.5);
      Tensor boxes = g.tensor(DType::kF32, {6, 4}, 0, 12);
      for (int64_t r = 0; r < 6; ++r)
        for (int64_t k : {2, 3}) boxes.as<float>()[r * 4 + k] += boxes.as<float>()[r * 4 + k - 2];
      boxes.as<float>()[2] += 400;  // wide: its bins have thousands of samples
      boxes.as<float>()[3] += 300;
      p.inputs = {g.tensor(DType::kF32, {2, 5, 9, 8}), boxes, g.tensor(DType::kI64, {6}, 0, 1.9)};
      INFO(coordinates << ratio);
      check_row("xc.sampled", p, {1e-5, 1e-5});
      p.attrs.set("mode", std::string("max"));
      check_row("xc.sampled", p, {1e-5, 1e-5});
    }
}

TEST_CASE("backends/sampled: RoiAlign of regions of any size and place, planes laid out any way") {
  Generator g(86);
  for (int round = 0; round < 60; ++round) {
    const int64_t height = g.integer(1, 24), width = g.integer(1, round % 3 == 0 ? 300 : 40);
    Problem p;
    p.op = &get_op("RoiAlign");
    p.attrs.set("coordinate_transformation_mode",
                std::string(round % 2 ? "half_pixel" : "output_half_pixel"));
    p.attrs.set("sampling_ratio", g.integer(0, 3));
    p.attrs.set("output_height", g.integer(1, 5));
    p.attrs.set("output_width", g.integer(1, 5));
    Tensor boxes(DType::kF32, {7, 4});
    for (int64_t r = 0; r < 7; ++r)
      for (int64_t k = 0; k < 4; ++k) {
        // Beside the image, in it, and reversed; one of no size.
        const auto size = static_cast<double>(k % 2 ? height : width);
        boxes.as<float>()[r * 4 + k] = static_cast<float>(r == 6 ? 3 : g.real(-size, 2 * size));
      }
    Tensor x = g.tensor(DType::kF32, {2, 3, height, width});
    if (round % 5 == 0) x.as<float>()[g.integer(0, x.count() - 1)] = INFINITY;
    const int kind = round % (Generator::kStrideKinds + 1);
    if (kind < Generator::kStrideKinds) {
      x = g.strided(x, kind);
    } else {
      Tensor last(Buffer::allocate(x.byte_size()), 0, DType::kF32, x.dims(),
                  channels_last_strides(x.dims()));
      copy_elements(x.view(), last.view());
      x = last;
    }
    p.inputs = {x, boxes, g.tensor(DType::kI64, {7}, 0, 1.9)};
    INFO(round << " " << height << "x" << width);
    check_row("xc.sampled", p, {1e-5, 1e-5});
    p.attrs.set("mode", std::string("max"));
    check_row("xc.sampled", p, {1e-5, 1e-5});
  }
}

TEST_CASE("backends/sampled: DeformConv reads nothing at the edge of the padding") {
  // Offsets of whole pixels: windows that begin at -1, where zero would count an infinity.
  for (const auto& [masked, channels] :
       std::vector<std::pair<bool, int64_t>>{{false, 2}, {true, 2}, {false, 9}, {true, 9}}) {
    Problem p;
    p.op = &get_op("DeformConv");
    p.attrs.set("pads", Ints{1, 1, 1, 1});
    Generator g(87);
    Tensor x = g.tensor(DType::kF32, {1, channels, 6, 7});
    x.as<float>()[3] = INFINITY;
    Tensor offsets(DType::kF32, {1, 18, 6, 7});
    for (int64_t i = 0; i < offsets.count(); ++i)
      offsets.as<float>()[i] = static_cast<float>(g.integer(-9, 9));
    std::fill_n(offsets.as<float>(), 100, 0.0f);
    offsets.as<float>()[200] = NAN;
    offsets.as<float>()[300] = 1e30f;
    p.inputs = {x, g.tensor(DType::kF32, {3, channels, 3, 3}), offsets};
    if (masked) {
      p.inputs.emplace_back();
      p.inputs.push_back(g.tensor(DType::kF32, {1, 9, 6, 7}, 0, 1));
    }
    check_row("xc.sampled", p, {1e-5, 1e-4});
  }
}

TEST_CASE("backends/sampled: DeformConv with groups, masks, bias, strides") {
  Generator g(83);
  for (const auto& [group, offset_group] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {2, 1}, {1, 2}, {2, 2}})
    for (bool masked : {false, true})
      for (int64_t stride : {1, 2}) {
        const int64_t h = 11, w = 9, oh = (h + 1 - 3) / stride + 1, ow = (w - 2) / stride + 1;
        Problem p;
        p.op = &get_op("DeformConv");
        p.attrs.set("group", group);
        p.attrs.set("offset_group", offset_group);
        p.attrs.set("strides", Ints{stride, stride});
        p.attrs.set("pads", Ints{1, 0, 0, 0});
        p.inputs = {g.tensor(DType::kF32, {2, 4, h, w}),
                    g.tensor(DType::kF32, {6, 4 / group, 3, 2}),
                    g.tensor(DType::kF32, {2, offset_group * 12, oh, ow}, -3, 3)};
        p.inputs.push_back(masked ? Tensor() : g.tensor(DType::kF32, {6}));
        if (masked) p.inputs.push_back(g.tensor(DType::kF32, {2, offset_group * 6, oh, ow}, 0, 1));
        INFO(group << offset_group << masked << stride);
        check_row("xc.sampled", p, {1e-5, 1e-4});
      }
}

TEST_CASE("backends/sampled: DeformConv of many channels, from a copy that has them side by side") {
  Generator g(88);
  for (const auto& [channels, offset_group] :
       std::vector<std::pair<int64_t, int64_t>>{{8, 1}, {16, 1}, {16, 2}, {21, 1}, {70, 2}})
    for (int64_t dilation : {1, 2}) {
      const int64_t h = 9, w = 13, oh = h + 2 - 2 * dilation, ow = w + 2 - 2 * dilation;
      Problem p;
      p.op = &get_op("DeformConv");
      p.attrs.set("offset_group", offset_group);
      p.attrs.set("dilations", Ints{dilation, dilation});
      p.attrs.set("pads", Ints{1, 1, 1, 1});
      p.inputs = {
          g.tensor(DType::kF32, {2, channels, h, w}), g.tensor(DType::kF32, {5, channels, 3, 3}),
          g.tensor(DType::kF32, {2, offset_group * 18, oh, ow}, -3, 3), g.tensor(DType::kF32, {5}),
          g.tensor(DType::kF32, {2, offset_group * 9, oh, ow}, 0, 1)};
      INFO(channels << offset_group << dilation);
      check_row("xc.sampled", p, {1e-5, 1e-4});
    }
}

TEST_CASE("backends/select: slices that a condition keeps, sequences backwards") {
  Generator g(84);
  for (DType type : {DType::kF32, DType::kI64, DType::kU8, DType::kF16})
    for (int axis : {-1, 0, 1, 2}) {
      Problem p;
      p.op = &get_op("Compress");
      const Dims dims{3, 5, 4};
      if (axis >= 0) p.attrs.set("axis", int64_t{axis});
      const int64_t size = axis < 0 ? 60 : dims[static_cast<size_t>(axis)];
      Tensor condition(DType::kBool, {size - 1});
      for (int64_t i = 0; i < size - 1; ++i) condition.as<bool>()[i] = i % 3 != 1;
      p.inputs = {g.tensor(type, dims, 0, 100), condition};
      INFO(name(type) << axis);
      check_row("xc.select", p, {});
    }
  for (DType type : {DType::kF32, DType::kU8})
    for (int64_t time : {0, 1}) {
      Problem p;
      p.op = &get_op("ReverseSequence");
      p.attrs.set("time_axis", time);
      p.attrs.set("batch_axis", 1 - time);
      const Dims dims = time == 0 ? Dims{6, 4, 3} : Dims{4, 6, 3};
      p.inputs = {g.tensor(type, dims, 0, 100), Tensor::of(Ints{0, 1, 4, 6})};
      check_row("xc.select", p, {});
    }
}

}  // namespace
}  // namespace xc
