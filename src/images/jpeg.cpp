#include <csetjmp>
#include <cstdio>  // jpeglib.h needs it

#include <jpeglib.h>

#include "images/codecs.h"

namespace xc::images {

namespace {

struct ErrorExit {
  jpeg_error_mgr manager;
  std::jmp_buf jump;
};

void leave(j_common_ptr state) {
  std::longjmp(reinterpret_cast<ErrorExit*>(state->err)->jump, 1);
}
void say_nothing(j_common_ptr, int) {}

}  // namespace

bool decode_jpeg(Encoded in, Canvas& out) {
  if (!starts_with(in, "\xff\xd8\xff")) return false;
  jpeg_decompress_struct state{};
  ErrorExit error{};
  state.err = jpeg_std_error(&error.manager);
  error.manager.error_exit = leave;
  error.manager.emit_message = say_nothing;
  // libjpeg leaves by longjmp: nothing with a destructor lives between here and there.
  if (setjmp(error.jump)) {
    jpeg_destroy_decompress(&state);
    return false;
  }
  jpeg_create_decompress(&state);
  jpeg_mem_src(&state, in.data(), static_cast<unsigned long>(in.size()));
  jpeg_read_header(&state, TRUE);
  state.out_color_space = JCS_RGB;
  // The size is asked about before any memory is taken for it.
  jpeg_calc_output_dimensions(&state);
  uint8_t* rgb = out.start(state.output_height, state.output_width);
  if (!rgb || state.output_components != 3) {
    jpeg_destroy_decompress(&state);
    return false;
  }
  jpeg_start_decompress(&state);
  while (state.output_scanline < state.output_height) {
    JSAMPROW row = rgb + size_t{state.output_scanline} * state.output_width * 3;
    jpeg_read_scanlines(&state, &row, 1);
  }
  jpeg_finish_decompress(&state);
  jpeg_destroy_decompress(&state);
  return true;
}

}  // namespace xc::images
