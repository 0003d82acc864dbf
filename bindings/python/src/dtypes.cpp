#include "dtypes.h"

#include <array>
#include <iterator>

#include "numpy_api.h"

namespace xc_python {
namespace {

/// dtype -> name in ml_dtypes.
struct Extension {
  xc_dtype dtype;
  const char* name;
};
constexpr Extension kExtensions[] = {
    {XC_DTYPE_BF16, "bfloat16"},
    {XC_DTYPE_F8E4M3FN, "float8_e4m3fn"},
    {XC_DTYPE_F8E4M3FNUZ, "float8_e4m3fnuz"},
    {XC_DTYPE_F8E5M2, "float8_e5m2"},
    {XC_DTYPE_F8E5M2FNUZ, "float8_e5m2fnuz"},
    {XC_DTYPE_F8E8M0, "float8_e8m0fnu"},
    {XC_DTYPE_F4E2M1, "float4_e2m1fn"},
    {XC_DTYPE_F6E2M3, "float6_e2m3fn"},
    {XC_DTYPE_F6E3M2, "float6_e3m2fn"},
    {XC_DTYPE_I4, "int4"},
    {XC_DTYPE_U4, "uint4"},
    {XC_DTYPE_I2, "int2"},
    {XC_DTYPE_U2, "uint2"},
};

/// NumPy's type numbers of the extension types, looked up when one is first met; -1 = not there.
class ExtensionTypes {
 public:
  int number(xc_dtype dtype) {
    load();
    for (size_t i = 0; i < std::size(kExtensions); ++i)
      if (kExtensions[i].dtype == dtype) return numbers_[i];
    return -1;
  }
  xc_dtype dtype(int number) {
    load();
    for (size_t i = 0; i < std::size(kExtensions); ++i)
      if (numbers_[i] == number) return kExtensions[i].dtype;
    return XC_DTYPE_UNDEFINED;
  }

 private:
  void load() {
    if (loaded_) return;
    numbers_.fill(-1);
    PyObject* module = PyImport_ImportModule("ml_dtypes");
    if (!module) {
      PyErr_Clear();
      return;  // it may be installed and imported later
    }
    loaded_ = true;
    for (size_t i = 0; i < std::size(kExtensions); ++i) {
      PyObject* type = PyObject_GetAttrString(module, kExtensions[i].name);
      PyArray_Descr* descr = nullptr;
      if (type && PyArray_DescrConverter(type, &descr) == NPY_SUCCEED)
        numbers_[i] = descr->type_num;
      PyErr_Clear();  // an older ml_dtypes lacks the newest types
      Py_XDECREF(descr);
      Py_XDECREF(type);
    }
    Py_DECREF(module);
  }
  bool loaded_ = false;
  std::array<int, std::size(kExtensions)> numbers_{};
};
ExtensionTypes& extension_types() {
  static ExtensionTypes types;
  return types;
}

constexpr int kStringDType = 2056;  // NPY_VSTRING of NumPy 2

/// dlpack.h's kDLFloat8_e4m3fn and those behind it; older headers of nanobind have no names for
/// them.
constexpr uint8_t kDlpackFloat8 = 10;
constexpr xc_dtype kFloat8[] = {XC_DTYPE_F8E4M3FN, XC_DTYPE_F8E4M3FNUZ, XC_DTYPE_F8E5M2,
                                XC_DTYPE_F8E5M2FNUZ, XC_DTYPE_F8E8M0};

}  // namespace

xc_dtype dtype_of_number(int number) {
  switch (number) {
    case NPY_FLOAT:
      return XC_DTYPE_F32;
    case NPY_DOUBLE:
      return XC_DTYPE_F64;
    case NPY_HALF:
      return XC_DTYPE_F16;
    case NPY_BOOL:
      return XC_DTYPE_BOOL;
    case NPY_BYTE:
      return XC_DTYPE_I8;
    case NPY_UBYTE:
      return XC_DTYPE_U8;
    case NPY_SHORT:
      return XC_DTYPE_I16;
    case NPY_USHORT:
      return XC_DTYPE_U16;
    case NPY_INT:
      return XC_DTYPE_I32;
    case NPY_UINT:
      return XC_DTYPE_U32;
    case NPY_LONG:
      return sizeof(long) == 8 ? XC_DTYPE_I64 : XC_DTYPE_I32;
    case NPY_ULONG:
      return sizeof(long) == 8 ? XC_DTYPE_U64 : XC_DTYPE_U32;
    case NPY_LONGLONG:
      return XC_DTYPE_I64;
    case NPY_ULONGLONG:
      return XC_DTYPE_U64;
    case NPY_CFLOAT:
      return XC_DTYPE_C64;
    case NPY_CDOUBLE:
      return XC_DTYPE_C128;
    case NPY_OBJECT:
    case NPY_UNICODE:
    case NPY_STRING:
    case kStringDType:
      return XC_DTYPE_STRING;
    default:
      return number >= NPY_USERDEF ? extension_types().dtype(number) : XC_DTYPE_UNDEFINED;
  }
}

int number_of_dtype(xc_dtype dtype) {
  switch (dtype) {
    case XC_DTYPE_F32:
      return NPY_FLOAT32;
    case XC_DTYPE_F64:
      return NPY_FLOAT64;
    case XC_DTYPE_F16:
      return NPY_FLOAT16;
    case XC_DTYPE_BOOL:
      return NPY_BOOL;
    case XC_DTYPE_I8:
      return NPY_INT8;
    case XC_DTYPE_U8:
      return NPY_UINT8;
    case XC_DTYPE_I16:
      return NPY_INT16;
    case XC_DTYPE_U16:
      return NPY_UINT16;
    case XC_DTYPE_I32:
      return NPY_INT32;
    case XC_DTYPE_U32:
      return NPY_UINT32;
    case XC_DTYPE_I64:
      return NPY_INT64;
    case XC_DTYPE_U64:
      return NPY_UINT64;
    case XC_DTYPE_C64:
      return NPY_COMPLEX64;
    case XC_DTYPE_C128:
      return NPY_COMPLEX128;
    case XC_DTYPE_STRING:
      return NPY_OBJECT;
    default:
      return extension_types().number(dtype);
  }
}

int number_of_bytes(xc_dtype dtype) {
  if (dtype == XC_DTYPE_I4 || dtype == XC_DTYPE_I2) return NPY_INT8;
  if (dtype == XC_DTYPE_U4 || dtype == XC_DTYPE_U2) return NPY_UINT8;
  return -1;
}

xc_dtype dtype_of_dlpack(const nb::dlpack::dtype& type) {
  using Code = nb::dlpack::dtype_code;
  if (type.lanes != 1) return XC_DTYPE_UNDEFINED;
  const auto pick = [&](xc_dtype b8, xc_dtype b16, xc_dtype b32, xc_dtype b64) {
    return type.bits == 8    ? b8
           : type.bits == 16 ? b16
           : type.bits == 32 ? b32
           : type.bits == 64 ? b64
                             : 0;
  };
  if (type.code >= kDlpackFloat8 && type.code < kDlpackFloat8 + std::size(kFloat8))
    return pick(kFloat8[type.code - kDlpackFloat8], 0, 0, 0);
  switch (static_cast<Code>(type.code)) {
    case Code::Float:
      return pick(0, XC_DTYPE_F16, XC_DTYPE_F32, XC_DTYPE_F64);
    case Code::Int:
      return pick(XC_DTYPE_I8, XC_DTYPE_I16, XC_DTYPE_I32, XC_DTYPE_I64);
    case Code::UInt:
      return pick(XC_DTYPE_U8, XC_DTYPE_U16, XC_DTYPE_U32, XC_DTYPE_U64);
    case Code::Bool:
      return pick(XC_DTYPE_BOOL, 0, 0, 0);
    case Code::Bfloat:
      return pick(0, XC_DTYPE_BF16, 0, 0);
    case Code::Complex:
      return type.bits == 64 ? XC_DTYPE_C64 : type.bits == 128 ? XC_DTYPE_C128 : 0;
    default:
      return XC_DTYPE_UNDEFINED;
  }
}

int number_class(xc_dtype dtype) {
  switch (dtype) {
    case XC_DTYPE_UNDEFINED:
    case XC_DTYPE_STRING:
      return -1;
    case XC_DTYPE_BOOL:
      return 0;
    case XC_DTYPE_C64:
    case XC_DTYPE_C128:
      return 3;
    default:
      break;
  }
  const char first = *xc_dtype_name(dtype);
  return first == 'i' || first == 'u' ? 1 : 2;
}

nb::object numpy_dtype(xc_dtype dtype) {
  const int number = dtype == XC_DTYPE_UNDEFINED ? -1 : number_of_dtype(dtype);
  if (number < 0) return nb::none();
  PyObject* const type = reinterpret_cast<PyObject*>(PyArray_DescrFromType(number));
  if (!type) nb::raise_python_error();
  return nb::steal<nb::object>(type);
}

}  // namespace xc_python
