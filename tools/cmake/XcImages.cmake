# xcrt-image: the only library that contains image codecs. It exports one C function and is opened when
# a model first decodes an image.
xc_find_library(xc_jpeg jpeglib.h jpeg libjpeg-dev)
xc_find_library(xc_png png.h png libpng-dev)
xc_find_library(xc_webp webp/decode.h webp libwebp-dev)
xc_find_library(xc_tiff tiffio.h tiff libtiff-dev)
xc_find_library(xc_openjpeg openjpeg.h openjp2 libopenjp2-7-dev openjpeg-2.5 openjpeg-2.4)

xc_sources(xc_image_sources src/images *.cpp)
add_library(xcrt-image SHARED ${xc_image_sources})
target_link_libraries(xcrt-image PRIVATE xc_options xc_jpeg xc_png xc_webp xc_tiff xc_openjpeg)
set_target_properties(xcrt-image PROPERTIES VERSION ${PROJECT_VERSION}
                                            SOVERSION ${xc_abi_version})
xc_version_script(xcrt-image xc_image_decode)
xc_set_installed_rpath(xcrt-image)
