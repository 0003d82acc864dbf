#include <openjpeg.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "images/codecs.h"

namespace xc::images {

namespace {

/// The encoded bytes as the stream OpenJPEG reads.
struct Stream {
  Encoded bytes;
  size_t at = 0;
};

OPJ_SIZE_T read(void* to, OPJ_SIZE_T size, void* handle) {
  auto& stream = *static_cast<Stream*>(handle);
  const size_t n = std::min<size_t>(size, stream.bytes.size() - stream.at);
  if (n == 0) return static_cast<OPJ_SIZE_T>(-1);
  std::memcpy(to, stream.bytes.data() + stream.at, n);
  stream.at += n;
  return n;
}
OPJ_OFF_T skip(OPJ_OFF_T size, void* handle) {
  auto& stream = *static_cast<Stream*>(handle);
  const auto left = static_cast<OPJ_OFF_T>(stream.bytes.size() - stream.at);
  if (size < 0 || size > left) return -1;
  stream.at += static_cast<size_t>(size);
  return size;
}
OPJ_BOOL seek(OPJ_OFF_T to, void* handle) {
  auto& stream = *static_cast<Stream*>(handle);
  if (to < 0 || static_cast<uint64_t>(to) > stream.bytes.size()) return OPJ_FALSE;
  stream.at = static_cast<size_t>(to);
  return OPJ_TRUE;
}

/// Components that are RGB or grey, one sample of at most 16 bits per pixel each.
bool is_plain(const opj_image_t& image) {
  if (image.numcomps == 0 || image.color_space == OPJ_CLRSPC_SYCC ||
      image.color_space == OPJ_CLRSPC_EYCC || image.color_space == OPJ_CLRSPC_CMYK)
    return false;
  const uint32_t used = image.numcomps >= 3 ? 3 : 1;
  for (uint32_t k = 0; k < used; ++k) {
    const opj_image_comp_t& c = image.comps[k];
    if (c.w != image.comps[0].w || c.h != image.comps[0].h || c.prec < 1 || c.prec > 16 || c.sgnd)
      return false;
  }
  return true;
}

/// Calls `release` on what is held.
template <class T, auto release>
struct Releaser {
  void operator()(T* held) const { release(held); }
};
template <class T, auto release>
using Held = std::unique_ptr<T, Releaser<T, release>>;

}  // namespace

bool decode_jpeg2000(Encoded in, Canvas& out) {
  const bool boxed = starts_with(in, std::string_view("\0\0\0\x0cjP  \r\n\x87\n", 12));
  if (!boxed && !starts_with(in, "\xff\x4f\xff\x51")) return false;
  Stream source{in};
  const Held<opj_stream_t, opj_stream_destroy> stream(opj_stream_default_create(OPJ_TRUE));
  const Held<opj_codec_t, opj_destroy_codec> codec(
      opj_create_decompress(boxed ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K));
  opj_dparameters_t parameters;
  opj_set_default_decoder_parameters(&parameters);
  if (!stream || !codec || !opj_setup_decoder(codec.get(), &parameters)) return false;
  opj_stream_set_user_data(stream.get(), &source, nullptr);
  opj_stream_set_user_data_length(stream.get(), in.size());
  opj_stream_set_read_function(stream.get(), read);
  opj_stream_set_skip_function(stream.get(), skip);
  opj_stream_set_seek_function(stream.get(), seek);
  opj_image_t* made = nullptr;
  const bool header = opj_read_header(stream.get(), codec.get(), &made);
  const Held<opj_image_t, opj_image_destroy> image(made);
  if (!header || !image || image->numcomps == 0) return false;
  const uint32_t height = image->comps[0].h, width = image->comps[0].w;
  const auto all_have_that_size = [&] {
    return std::all_of(image->comps, image->comps + image->numcomps,
                       [&](const auto& c) { return c.h == height && c.w == width; });
  };
  // Subsampled components are not for us, and decoding may put one in another's place.
  if (!all_have_that_size()) return false;
  uint8_t* rgb = out.start(height, width);
  if (!rgb || !opj_decode(codec.get(), stream.get(), image.get()) || image->numcomps == 0 ||
      !is_plain(*image) || !all_have_that_size())
    return false;
  const size_t count = size_t{height} * width;
  for (uint32_t k = 0; k < 3; ++k) {
    const opj_image_comp_t& c = image->comps[image->numcomps >= 3 ? k : 0];
    if (!c.data) return false;
    const int64_t top = (int64_t{1} << c.prec) - 1;
    for (size_t i = 0; i < count; ++i)
      rgb[i * 3 + k] = static_cast<uint8_t>(std::clamp<int64_t>(c.data[i], 0, top) * 255 / top);
  }
  return true;
}

}  // namespace xc::images
