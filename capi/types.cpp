// xc/types.h and xc/version.h.

#include "capi/handles.h"
#include "tensor/dtype.h"

#define XC_STRING_(x) #x
#define XC_STRING(x) XC_STRING_(x)

const char* xc_runtime_version(void) {
  return XC_STRING(XC_VERSION_MAJOR) "." XC_STRING(XC_VERSION_MINOR) "." XC_STRING(
      XC_VERSION_PATCH);
}
int32_t xc_runtime_version_number(void) {
  return XC_VERSION_NUMBER;
}

const char* xc_dtype_name(xc_dtype dtype) {
  if (dtype <= 0 || dtype >= xc::kDTypeCount) return "?";
  return xc::name(static_cast<xc::DType>(dtype)).data();  // rows of a table of literals
}

int64_t xc_dtype_size(xc_dtype dtype) {
  if (dtype <= 0 || dtype >= xc::kDTypeCount || dtype == XC_DTYPE_STRING ||
      dtype == XC_DTYPE_TENSOR)
    return 0;
  return xc::element_size(static_cast<xc::DType>(dtype));
}

const char* xc_blob_data(const xc_blob* blob) {
  return blob && blob->magic == xc_blob::kMagic ? blob->bytes.c_str() : nullptr;
}
uint64_t xc_blob_size(const xc_blob* blob) {
  return blob && blob->magic == xc_blob::kMagic ? blob->bytes.size() : 0;
}
void xc_blob_destroy(xc_blob* blob) {
  xc::capi::destroy(blob);
}

namespace xc::capi {

xc_blob* make_blob(std::string text) {
  auto blob = std::make_unique<xc_blob>();
  blob->bytes = std::move(text);
  return blob.release();
}

}  // namespace xc::capi
